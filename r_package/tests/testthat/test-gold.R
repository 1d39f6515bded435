texts <- function() {
  data.frame(
    text = c("a", NA, "größer", "d", "e", "f"),
    label = factor(c("yes", "no", "yes", "no", NA, "no")),
    party = c("A", "A", "B", "B", "A", "B"),
    sure = c(0.1, 0.2, NA, 0.4, 0.5, 0.6)
  )
}

test_that("a sample is a list with what was drawn", {
  local_fake()
  data <- texts()
  gold <- gold_sample(data, 4, text = text, label = "label", seed = 3)
  expect_s3_class(gold, "llamaherd_gold")
  expect_length(gold$rows, 4)
  expect_identical(gold$ids, as.character(gold$rows))
  expect_identical(gold$texts, data$text[gold$rows])
  expect_identical(gold$labels, as.character(data$label)[gold$rows])
  expect_equal(gold$probs, rep(0.8, 4))
  expect_length(gold$strata, 4)
  expect_equal(gold$all_probs, c(0.8, 0, 0.8, 0.8, 0.8, 0.8)) # a missing text is not drawn
  expect_identical(gold$gold, rep(NA_character_, 4))
  expect_identical(gold$codes, rlang::set_names(list(), character()))
  frame <- as.data.frame(gold)
  expect_named(frame, c("id", "text", "model_label", "inclusion_prob"))
  expect_output(print(gold, n = 2L), "2 more rows")
  expect_seen(
    "gold_draw",
    "'text': ['a', None, 'größer', 'd', 'e', 'f']",
    "'label': ['yes', 'no', 'yes', 'no', None, 'no']",
    "'seed': 3"
  )
})

test_that("columns are named with quotes or without", {
  local_fake()
  data <- texts()
  drawn <- \(...) {
    try(gold_sample(data, 4, ...), silent = TRUE)
    the$module$seen("gold_draw")
  }
  expect_match(drawn(by = party), "'by': ['party']", fixed = TRUE)
  expect_match(drawn(by = c(party, label)), "'by': ['party', 'label']", fixed = TRUE)
  names <- c("label", "party")
  expect_match(drawn(by = names), "'by': ['label', 'party']", fixed = TRUE)
  seen <- drawn(label = label, prob = "uncertainty", confidence = sure)
  expect_match(seen, "'confidence': 'sure'", fixed = TRUE)
  expect_match(seen, "'sure': [0.1, 0.2, None, 0.4, 0.5, 0.6]", fixed = TRUE)
  seen <- drawn(label = label, prob = "uncertainty", confidence = 1:6 / 10)
  expect_match(seen, "'confidence': [0.1, 0.2, 0.3", fixed = TRUE)
  seen <- drawn(by = party, allocation = c(A = 1, B = 1))
  expect_match(seen, "'allocation': {'A': 1.0, 'B': 1.0}", fixed = TRUE)
  expect_match(drawn(text = text, prob = rep(1 / 3, 6)), "'prob': [0.33", fixed = TRUE)
})

test_that("what annotate_texts() returned knows its columns", {
  local_fake()
  known <- list(label = "label", text = "text", names = c("yes", "no"))
  known$columns <- c(label = "label", margin = "sure", prob = "gone")
  coded <- c("llamaherd_coded", "data.frame")
  data <- structure(texts(), llamaherd = known, class = coded)
  gold <- gold_sample(data, 3, prob = "uncertainty")
  expect_identical(gold$texts, data$text[gold$rows])
  expect_seen("gold_draw", "'confidence': 'sure'", "'names': ['yes', 'no']")
})

test_that("a sample is written, coded and read", {
  local_fake()
  path <- withr::local_tempfile(fileext = ".csv")
  gold <- gold_sample(texts(), 4, text = text, label = label)
  expect_identical(write_gold(gold, path, coders = "ann", shuffle = FALSE), path)
  expect_seen("write_gold", "'coders': ['ann']")
  sheet <- utils::read.csv(path, fileEncoding = "UTF-8-BOM")
  sheet$ann <- "yes"
  utils::write.csv(sheet, path, row.names = FALSE)
  sample <- read_gold(path, gold)
  expect_identical(sample$codes, list(ann = rep("yes", 4)))
  expect_identical(sample$gold, rep("yes", 4))
  expect_named(
    as.data.frame(sample),
    c("id", "text", "model_label", "inclusion_prob", "ann")
  )
  write_gold(gold, path, delimiter = ";", overwrite = TRUE)
  expect_seen("write_gold", "'delimiter': ';'")
})

test_that("codes may come in a data frame", {
  local_fake()
  gold <- gold_sample(texts(), 5, text = text)
  codes <- data.frame(id = c(3, 1), ann = factor(c("no", "yes")), ben = c(NA, "no"))
  read <- read_gold(codes, gold)
  expect_identical(
    read$codes,
    list(ann = c("yes", "no", NA, NA, NA), ben = c("no", NA, NA, NA, NA))
  )
  again <- unserialize(serialize(read, NULL))
  expect_identical(
    read_gold(data.frame(id = 4, eve = "no"), again)$codes$eve,
    c(NA, NA, "no", NA, NA)
  )
  expect_error(read_gold(codes), "need `gold`", class = "llamaherd_error_argument")
  bad <- data.frame(id = 9, ann = "no")
  expect_errors("is not in the sample" = read_gold(bad, gold))
  read_gold(cbind(codes, party = "A"), gold, coders = "ann")
  expect_seen("gold_read", "'id': [3, 1]", "'party': ['A', 'A']", "['ann']")
})

test_that("people may give labels that the model never gave", {
  skip_if_no_llamaherd()
  data <- texts()
  data$label <- rep(c("no", "yes"), length.out = nrow(data))
  data[c("p_yes", "p_unsure", "p_no")] <- 0.3
  gold <- gold_sample(data, 2, text = text, label = label, seed = 1)
  expect_identical(gold$names, c("no", "unsure", "yes"))
  data$p_no <- NULL
  gold <- gold_sample(data, 2, text = text, label = label, seed = 1)
  expect_identical(gold$names, c("no", "yes"))
})

test_that("the size of a sample is a list that prints, and its arguments arrive", {
  skip_if_no_llamaherd()
  sizes <- c("gold", "dsl", "ppi")
  size <- gold_size(0.05)
  expect_s3_class(size, "llamaherd_gold_size")
  expect_identical(
    unclass(size)[sizes],
    list(gold = 388, dsl = NA_real_, ppi = NA_real_)
  )
  expect_output(print(size), "388 texts")
  of <- \(...) unlist(gold_size(0.05, accuracy = 0.9, population = 1000, ...)[sizes])
  expect_true(all(of(target = "texts") < of()))
  expect_errors(
    "not both" = gold_size(0.05, accuracy = 0.9, kappa = 0.8),
    "too few for a width of 0.05" = gold_size(0.05, population = 200)
  )
})

test_that("coders who err have tables", {
  local_fake()
  data <- data.frame(text = sprintf("Text %d.", 1:40), label = c("no", "yes"))
  gold <- gold_sample(data, 30, text = text, label = "label", seed = 3)
  codes <- data.frame(id = gold$ids, ann = gold$labels, ben = gold$labels)
  codes$eve <- replace(gold$labels, 1:4, c("yes", "no"))
  gold <- read_gold(codes, gold)
  expect_error(dawid_skene(gold, one_coin = TRUE), "was removed")
  model <- dawid_skene(gold)
  table <- as.data.frame(model)
  expect_identical(table$label, gold$labels)
  expect_equal(table$p_no + table$p_yes, rep(1, 30))
  expect_identical(names(model$accuracy), c("ann", "ben", "eve"))
  errors <- model$errors[[3]]
  expect_identical(dimnames(errors), list(right = c("no", "yes"), code = c("no", "yes")))
  expect_gt(errors["no", "yes"], 0)
  expect_output(print(model), "30 texts, 3 coders")
})

test_that("no label survives a CSV file", {
  skip_if_no_llamaherd()
  data <- data.frame(text = letters[1:4], label = c("x", "", "x; y", NA))
  gold <- gold_sample(
    data,
    4,
    text = "text",
    label = "label",
    several = TRUE,
    names = c("x", "y"),
    seed = 1
  )
  sheet <- data.frame(id = gold$ids, ann = c("x; y", "none", NA, "none"))
  coded <- read_gold(sheet, gold)
  expect_identical(coded$codes$ann, c("x; y", "", NA, ""))
  path <- withr::local_tempfile(fileext = ".csv")
  write.csv(as.data.frame(coded), path, row.names = FALSE)
  for (na in list("NA", c("", "NA"))) {
    # as read.csv() and readr read it
    again <- read_gold(read.csv(path, na.strings = na), gold, coders = "ann")
    expect_identical(again$codes, coded$codes)
  }
  expect_identical(is.na(as.data.frame(coded)$model_label), is.na(gold$labels))
  expect_output(print(coded), "none", fixed = TRUE)
})

test_that("a column called text is used, and other columns if no texts are known", {
  local_fake()
  gold_sample(texts(), 4, by = party, seed = 1)
  expect_seen("gold_draw", "'text': 'text'")
  bare <- stats::setNames(
    texts()[c("party", "sure", "label")],
    c("party", "sure", "answer")
  )
  gold_sample(bare, 4, by = party, seed = 1)
  expect_seen("gold_draw", "'text': None", "'sure': [0.1, 0.2, None, 0.4, 0.5, 0.6]")
})

# Integers of 64 bits, from two halves of 32 bits, as the package bit64 stores them.
integer64 <- function(high, low) {
  halves <- as.integer(rbind(low, high))
  bytes <- writeBin(halves, raw(), endian = "little")
  structure(readBin(bytes, "double", length(low), endian = "little"), class = "integer64")
}

test_that("integers of 64 bits are numbers, or text if a number would be rounded", {
  skip_if_no_llamaherd()
  expect_identical(plain_integers(integer64(c(0, 0, -1), c(7, 0, -3))), c(7, 0, -3))
  expect_identical(
    plain_integers(integer64(c(0, 23), c(100000L, -1L))),
    c(1e5, 24 * 2^32 - 1)
  )
  large <- integer64(c(2^28, 2^28, .Machine$integer.max, -1), c(0, 1, -1, -10))
  known <- c("1152921504606846976", "1152921504606846977", "9223372036854775807", "-10")
  expect_identical(plain_integers(large), known)
  expect_identical(plain_integers(integer64(c(0, NA), c(5, 0))), c(5, NA))
  expect_identical(plain_integers(integer64(-1, -10000)), -10000)
  expect_identical(plain_integers(integer64(integer(), integer())), numeric())
  expect_identical(plain_integers(c(a = 1.5)), c(a = 1.5))
})

test_that("ids, codes and weights may be integers of 64 bits", {
  local_fake()
  data <- transform(texts(), id = 1:6, w = 2)
  data$id <- integer64(rep(0, 6), 101:106)
  data$w <- integer64(rep(0, 6), rep(2, 6))
  gold_sample(data, 2, prob = "weights", weights = w, id = id, seed = 1)
  expect_seen(
    "gold_draw",
    "'id': [101, 102, 103, 104, 105, 106]",
    "'w': [2, 2, 2, 2, 2, 2]"
  )
  expect_identical(as_codes(integer64(c(0, NA), c(3, 0))), list(3L, NULL))
  expect_identical(as_py_numbers(integer64(0, 4)), list(4))
})
