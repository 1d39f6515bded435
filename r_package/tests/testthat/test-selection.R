news <- function() {
  data.frame(
    text = sprintf("Text %d says %s", 1:80, ifelse(1:80 %% 3 == 0, "that", "this")),
    code = ifelse(1:80 %% 3 == 0, "b", "a")
  )
}

split_sample <- function(...) {
  data <- news()
  gold <- gold_sample(data, 60, text = text, names = c("a", "b"), seed = 1)
  gold <- read_gold(data.frame(id = gold$ids, code = data$code[gold$rows]), gold)
  gold_split(gold, ..., seed = 2)
}

test_that("a split has parts that are samples", {
  local_real()
  gold <- split_sample(1 / 3, 1 / 3, 1 / 3)
  expect_s3_class(gold, "llamaherd_gold")
  expect_identical(sort(unique(gold$parts)), c("evaluate", "explore", "select"))
  expect_identical(as.data.frame(gold)$part, gold$parts)
  part <- gold_part(gold, "select")
  expect_length(part$ids, 20)
  expect_equal(sum(1 / part$probs), 80)
  expect_null(part$parts)
  expect_errors(
    "locked until" = gold_part(gold, "evaluate"),
    gold_part(gold, "other")
  )
})

test_that("files keep a split", {
  local_real()
  gold <- split_sample(1 / 3, 1 / 3, 1 / 3)
  path <- withr::local_tempfile(fileext = ".csv")
  write_gold(gold, path)
  expect_identical(read_gold(path)$parts, gold$parts)
  expect_error(gold_split(path), "split already", class = "llamaherd_error_argument")
})

test_that("what cannot be split is refused", {
  local_real()
  expect_errors(
    "path of its CSV file" = gold_split(3),
    "sum to 1" = split_sample(0.5, 0.5, 0.5),
    split_sample("a")
  )
  few <- gold_sample(news(), 3, text = text, names = c("a", "b"), seed = 1)
  expect_errors("would have 1" = gold_split(few, seed = 1))
})

test_that("examples come from explore", {
  local_real()
  gold <- split_sample(1 / 3, 1 / 3, 1 / 3)
  book <- codebook("Which?", c("a", "b"))
  with_examples <- choose_examples(gold, 4, book)
  expect_s3_class(with_examples, "llamaherd_codebook")
  texts <- vapply(
    jsonlite::parse_json(with_examples$content)$examples,
    \(one) one$text,
    ""
  )
  expect_length(texts, 4)
  expect_true(all(texts %in% gold$texts[gold$parts == "explore"]))
  vectors <- matrix(seq_len(120), 60)
  expect_s3_class(
    choose_examples(gold, 2, book, embeddings = vectors),
    "llamaherd_codebook"
  )
  expect_errors(
    "a matrix" = choose_examples(gold, 2, book, embeddings = "x"),
    "`coded` is needed" = choose_examples(gold, 2, book, by = "hardest"),
    "`chat` is used only with a context" = choose_examples(gold, 2, book, chat = TRUE),
    "`context`" = choose_examples(gold, 2, book, context = 3),
    "has the labels x, y" = choose_examples(gold, 2, codebook("q", c("x", "y")))
  )
})

test_that("candidates and comparisons are checked before anything runs", {
  local_real()
  gold <- split_sample(1 / 3, 1 / 3, 1 / 3)
  book <- codebook("Which?", c("a", "b"))
  expect_output(print(candidate(book, calibrate = "batch")), "calibrate")
  date <- as.Date("2026-01-31")
  settings <- as_python(candidate(
    book,
    method = factor("classify"),
    date = date
  ))$settings
  expect_identical(settings, list(method = "classify", date = "2026-01-31"))
  expect_errors(
    "calibrate" = candidate(book, calibrat = "batch"),
    "is not a setting" = candidate(book, columns = "x"),
    "named settings" = candidate(book, NULL, "batch"),
    candidate("book"),
    "has none of its own" = compare_codebooks(news(), list(book), gold),
    "or a list of them" = compare_codebooks(news(), list(), gold),
    "`context` must be a <llamaherd_context>" = compare_codebooks(
      news(),
      list(a = book),
      gold,
      NA
    ),
    "unique names" = compare_codebooks(news(), list(a = book, a = book), gold),
    "compare_codebooks" = best_codebook(1),
    "best_codebook" = evaluate_codebook(1, gold),
    "annotate_texts" = disagreements(news(), gold)
  )
})

test_that("gold_size() counts texts to compare on", {
  local_real()
  size <- gold_size(compare = 0.05)
  expect_identical(size$dsl, NA_real_)
  expect_output(print(size), paste(size$gold, "texts to compare on"))
  numbers <- gold_size(compare = 0.5, measure = "mae", spread = 1)
  expect_identical(numbers$gold, 34)
  expect_output(print(numbers), "mean absolute error")
  expect_errors(
    "`width` or `compare`" = gold_size(),
    "at least the difference" = gold_size(compare = 0.3),
    "`error` or `spread`" = gold_size(compare = 0.5, measure = "mae"),
    "mae" = gold_size(compare = 0.5, measure = "rmse")
  )
})
