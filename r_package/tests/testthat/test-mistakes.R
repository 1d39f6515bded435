# Tests the most common mistakes: each error message says what to do.

test_that("mistakes in coding and believing say what to do", {
  skip_if_no_llamaherd()
  speeches <- data.frame(
    text = letters[1:24],
    label = c("pro", "con"),
    party = c("A", "A", "B")
  )
  gold <- gold_sample(speeches, 6, text = text, label = label, seed = 1)
  path <- file.path(withr::local_tempdir(), "gold.csv")
  write_gold(gold, path)
  sheet <- utils::read.csv(path, colClasses = "character", fileEncoding = "UTF-8-BOM")
  sheet$code <- c("pro", "con")
  bring_back <- function(sheet) {
    utils::write.csv(sheet, path, row.names = FALSE)
    read_gold(path, gold)
  }
  coded <- bring_back(sheet)
  expect_identical(bring_back(sheet[6:1, ])$gold, coded$gold)
  hand <- speeches
  hand$code <- c("pro", "con", rep(NA, 22))
  expect_refused({
    codebook("Is it?", c("pro", "con"), examples = data.frame(text = "a", label = "prro"))
    bring_back(replace(sheet, "text", list(sort(sheet$text))))
    bring_back(replace(sheet, "code", "prro"))
    estimate(speeches, coded, outcome = "prro")
    estimate(speeches, coded, label == "prro" ~ party)
    estimate(speeches, coded, lable == "pro" ~ party)
    estimate(hand, "code")
    estimate(hand, "cod")
    validate(hand, "cod")
  })
})

test_that("a missing argument is named, also where it may be a column", {
  skip_if_no_llamaherd()
  texts <- data.frame(text = c("a", "b"), label = c("x", "y"))
  expect_errors(
    "`gold` is missing" = estimate(texts),
    "`gold` is missing" = recalibrate(texts)
  )
  expect_error(validate(texts), "such as a coded gold_sample()", fixed = TRUE)
})

test_that("an error of a function that another one calls has its name", {
  error <- tryCatch(validate_models(data.frame(x = 1)), error = identity)
  expect_identical(rlang::call_name(conditionCall(error)), "validate_models")
})

test_that("functions that lapply() and do.call() call have their defaults and arguments", {
  context <- local_context()
  expect_identical(plain(lapply("x", generate_parallel, context = context)[[1]]), "x!")
  data <- data.frame(label = rep(c("a", "b"), 40), code = c("a", "b", NA, NA))
  fit <- do.call(estimate, list(data, "code", prob = "simple", methods = "gold"))
  expect_identical(fit$target, "population")
  for (call in list(\() do.call(gold_size, list("x")), \() lapply("x", gold_size))) {
    cnd <- expect_error(call(), class = "llamaherd_error_argument")
    expect_identical(cnd$argument, "width")
  }
})

test_that("an error of Python has the name of an exported function", {
  local_real()
  coded <- data.frame(text = letters, label = "good", x = 1:26)
  codes <- rep("1", 26)
  calls <- list(
    \() estimate(coded, codes, label == "good" ~ x, prob = "simple"),
    \() estimate(coded, codes, prob = "simple")
  )
  for (call in calls) {
    error <- tryCatch(call(), error = identity)
    message <- gsub("\\s+", " ", conditionMessage(error)) # messages may be wrapped
    expect_match(message, "labels and codes alike")
    expect_identical(rlang::call_name(conditionCall(error)), "estimate")
  }
})

test_that("passages in place of labels are reported with the function for them", {
  coded <- data.frame(text = c("a", "b"))
  coded$spans <- list(NULL, NULL)
  expect_error(estimate(coded, "text"), "validate_spans()", fixed = TRUE)
  expect_error(validate(coded, "text"), "validate_spans()", fixed = TRUE)
})

test_that("texts may be a factor", {
  texts <- factor(c(x = "b", y = "a"))
  names(texts) <- c("x", "y")
  expect_identical(check_text(texts), c("b", "a"))
  pairs <- pair_texts(texts)
  expect_identical(pairs, list(x = "b", y = "a"))
})

test_that("an error about columns counts those that it does not list", {
  wide <- as.data.frame(matrix(0, 1, 12))
  expect_error(gold_sample(wide, 1, by = nope), "V10, and 2 more")
  expect_error(gold_sample(wide[1:3], 1, by = nope), "V1, V2, V3)", fixed = TRUE)
})

test_that("vectors are described with their article", {
  expect_identical(describe(1:9), "an integer vector of length 9")
  expect_identical(describe(seq(0.5, 9)), "a double vector of length 9")
})

test_that("a misspelt argument is named before its value is read", {
  data <- data.frame(text = letters[1:4], label = "a", party = "b")
  expect_errors(
    "cannot take `labels`" = validate(data, "label", labels = party),
    "cannot take `by`" = annotate_texts(data, text, by = party),
    "cannot take `by`" = robustness(data, text, by = party),
    "cannot take `lable`" = codebook("Which?", lable = party),
    "cannot take `lable`" = sampling_options(lable = party),
    "cannot take `n_row`" = print(thinking(1), n_row = party)
  )
})

test_that("a shortened name of an argument is understood", {
  context <- local_context()
  shortened <- generate_parallel(context, "a", max_token = 3)
  expect_identical(as.character(shortened), "a!")
})

test_that("errors about arguments have fields", {
  status <- list(
    error_type = "ArgumentError",
    message = "labels[2] occurs twice: 'a[1]' {x}",
    argument = "labels",
    place = 2L,
    code = "duplicate",
    traceback = ""
  )
  cnd <- expect_error(abort_python(status, NULL), class = "llamaherd_error_argument")
  expect_identical(cnd$argument, "labels")
  expect_identical(cnd$place, list(2L))
  expect_identical(cnd$code, "duplicate")
  expect_identical(conditionMessage(cnd), status$message)
  cnd <- expect_error(check_flag(3, "chat"), class = "llamaherd_error_argument")
  expect_identical(cnd$argument, "chat")
})

test_that("messages about arguments have R's words", {
  skip_if_no_llamaherd()
  data <- data.frame(text = letters[1:6], label = c("a", "b"))
  folder <- withr::local_tempdir()
  write <- function(name, ...) {
    path <- file.path(folder, name)
    writeLines(c(...), path)
    path
  }
  yaml <- function(...) write("codebook.yaml", ..., "question: Is it?")
  wrong <- data.frame(text = "x", label = "c")
  draw <- \(...) gold_sample(data, 2, text = text, label = label, ...)
  for (call in expression(
    codebook("Is it?", c("a", "b"), examples = wrong),
    codebook("Is it?", c("a", "b"), type = "fields"),
    read_codebook(yaml("labels: 3")),
    read_codebook(yaml("labels: [a, b]", "examples: yes")),
    draw(prob = "simple", by = "label"),
    prompt_preview(codebook("Is it?", c("a", "b")), "x", chat = TRUE),
    estimate(data, "label", "prro")
  )) {
    message <- conditionMessage(expect_error(eval(call), class = "llamaherd_error"))
    words <- "\\b(True|False|None|str|dict|int|float|NoneType)\\b|\\w=\\w"
    expect_no_match(cli::ansi_strip(message), words, perl = TRUE)
  }
})

test_that("errors of missing arguments name the argument and the user's call", {
  context <- local_context()
  data <- data.frame(text = c("a", "b"))
  is_required <- function(fun) {
    arguments <- formals(fun)[names(formals(fun)) != "..."]
    vapply(arguments, \(x) is.symbol(x) && !nzchar(x), NA)
  }
  exported <- getNamespaceExports("llamaherd")
  functions <- Filter(is.function, mget(exported, envir = asNamespace("llamaherd")))
  functions <- Filter(\(fun) any(is_required(fun)), functions)
  functions$type_from_schema <- NULL # needs one of two arguments
  expect_gt(length(functions), 60)
  calls <- c(
    lapply(names(functions), \(name) rlang::call2(name)),
    alist(
      annotate_texts(data, text),
      gold_sample(data),
      generate_parallel(context),
      embed_parallel(context$model),
      tokenize(context$model),
      prompt_preview(),
      write_codebook()
    )
  )
  for (call in calls) {
    cnd <- expect_error(eval(call), class = "rlang_error")
    info <- paste(deparse1(call), conditionMessage(cnd))
    expect_true(grepl("is missing|is absent", conditionMessage(cnd)), info = info)
    expect_identical(rlang::call_name(conditionCall(cnd)), rlang::call_name(call), info)
  }
})

test_that("a misspelt method of a conversation is named", {
  talk <- chat(local_context())
  expect_error(talk$aks("Hi"), "Did you mean `\\$ask\\(\\)`", class = "llamaherd_error")
  expect_error(score_parallel(local_context(), "a", c("b", "c")), "list(c(", fixed = TRUE)
})

test_that("a column that does not exist gets the columns and the nearest one", {
  skip_if_no_llamaherd()
  data <- data.frame(text = letters[1:20], label = c("a", "b"), length = 1:20)
  data$code <- data$label
  column <- "here are text, label, length, code"
  meant <- "Did you mean `length`?"
  expect_column <- function(call, ...) {
    message <- conditionMessage(expect_error(call, class = "llamaherd_error_argument"))
    for (part in c(...)) {
      expect_match(gsub("\\s+", " ", message), part, fixed = TRUE)
    }
  }
  by_hand <- \(...) estimate(data, "code", ..., prob = "simple")
  expect_column(by_hand(label == "a" ~ lenght), column, meant)
  expect_column(by_hand(by = "lenght"), column, meant)
  expect_column(validate(data, "code", label_col = "lable"), column, "`label`?")
  expect_column(gold_sample(data, 5, text = txt), column, "`text`?")
  columns <- "Columns are text, label, length, code"
  expect_column(estimate(data, "coed"), columns, "`code`?")
  shift <- 2
  fit <- suppressWarnings(by_hand(label == "a" ~ I(length - shift)))
  expect_length(coef(fit), 2)
  book <- codebook("Which?", c("a", "b"))
  context <- local_context()
  expect_column(annotate_texts(data, "txt", book, context), column, "`text`?")
  expect_column(annotate_texts(data, txt, book, context), column, "`text`?")
  expect_column(codebook("Which?", c("a", NA)), "`labels[2]`")
})

test_that("columns that do not exist are named with their argument", {
  data <- data.frame(text = letters[1:6], label = c("a", "b"), code = "a")
  there <- "there are text, label, code"
  expect_named <- \(call, arg, message = there) {
    cnd <- expect_error(call, class = "llamaherd_error_argument")
    expect_identical(cnd$argument, arg)
    lines <- gsub("\\s+", " ", conditionMessage(cnd)) # they may be wrapped
    expect_match(lines, message, fixed = TRUE)
  }
  expect_named(estimate(data, code, weights = nix), "weights")
  expect_named(estimate(data, code, weights = nix * 2), "weights")
  expect_named(validate(data, code, weights = nix), "weights")
  expect_named(gold_sample(data, 2, prob = "weights", weights = nix), "weights")
  expect_named(gold_sample(data, 2, prob = "uncertainty", confidence = nix), "confidence")
  expect_named(validate("a", "a", weights = "w"), "weights", "no columns to name")
})

test_that("columns with one name are the error of an expression, too", {
  twice <- data.frame(id = 1:2, `my text` = c("x", "y"), id = 3:4, check.names = FALSE)
  context <- local_context()
  book <- codebook("Which?", c("yes", "n"))
  expect_error(annotate_texts(twice, `my text`, book, context), "several columns.* id")
  expect_error(
    gold_sample(twice, 1, prob = "weights", weights = 1 / id),
    "several columns"
  )
})

test_that("values of a wrong kind name their argument, in words of R", {
  skip_if_no_llamaherd()
  data <- six_texts()
  gold <- sample_of_six(data$label)
  probs <- cbind(data, p_yes = 0.5, p_no = 0.5)
  curve <- coverage_curve(c(0.9, 0.5), c(TRUE, FALSE))
  cnd <- expect_error(
    estimate(data, gold, by = ~party),
    class = "llamaherd_error_argument"
  )
  expect_match(conditionMessage(cnd), "Write names of columns without `~`.", fixed = TRUE)
  expect_errors(
    "`by` must be names of columns" = gold_sample(data, 2, by = ~party),
    "`weights` must be names of columns" = estimate(data, gold, weights = ~party),
    "`cluster` must be names of columns" = estimate(data, gold, cluster = mean),
    "`cluster` must be one column, not character" = estimate(
      data,
      gold,
      cluster = character()
    ),
    "`label` must be one column, not character" = corrected(
      data,
      gold,
      label = character()
    ),
    "`weights` must be one column, not character" = validate(
      data,
      gold,
      weights = character()
    ),
    "`weights\\[1\\]` must be finite and at least 0, not Inf" = estimate(
      data,
      gold,
      weights = c(Inf, 1, 1, 1, 1, 1)
    ),
    "`methods` must .* not a <list>" = estimate(data, gold, methods = list("dsl")),
    "`methods` must .* not y ~ x" = estimate(data, gold, methods = y ~ x),
    "`outcome` must .* not a <function>" = estimate(data, gold, outcome = mean),
    "`coders`: .* <list>" = read_gold(
      data.frame(id = 1:6, code = "no"),
      gold,
      list("code")
    ),
    "`path` must be paths" = read_gold(character(), gold),
    "`features` must .* not y ~ x" = recalibrate(probs, gold, features = y ~ x),
    "`coded` must be a data frame with columns" = estimate(data.frame(), gold),
    "`data` must be a data frame with columns" = gold_sample(data.frame(), 2),
    "`weights` must be 2 numbers" = coverage_curve(c(0.9, 0.5), c(TRUE, FALSE), 1),
    "`x` must be between 0 and 1" = coverage_curve(c(90, 50), c(TRUE, FALSE)),
    "`prob` must be between 0 and 1" = texts_for_people(curve, 0.9, prob = c(90, 50)),
    "`correlation` must be at least -0.99" = gold_size(
      compare = 0.1,
      measure = "mae",
      error = 1,
      correlation = -1
    ),
    "a coded gold sample" = agreement(gold, data$label)
  )
})

test_that("the column of a text that is not valid is named", {
  skip_if_no_llamaherd()
  data <- data.frame(
    text = letters[1:6],
    label = c("yes", "no"),
    place = c("K\xf6ln", "Ulm")
  )
  expect_warning(
    gold_sample(data, 4, by = place, text = text),
    "3 of 6 values of the column place"
  )
})

test_that("sentences and texts fit a narrow console", {
  skip_if_no_llamaherd()
  withr::local_options(width = 60)
  data <- data.frame(text = strrep("word ", 20), label = rep("no", 20), prob = 0.9)
  gold <- gold_sample(
    data,
    10,
    text = text,
    label = label,
    names = c("yes", "no"),
    seed = 1
  )
  gold <- read_gold(data.frame(id = gold$ids, code = rep(c("yes", "no"), 5)), gold)
  printed <- utils::capture.output(print(gold))
  expect_lte(max(nchar(printed)), 60)
  printed <- utils::capture.output(print(validate(data, gold, prob = prob)))
  wrong <- grep("people: yes", printed, value = TRUE)
  expect_length(wrong, 5)
  expect_lte(max(nchar(wrong)), 60)
})
