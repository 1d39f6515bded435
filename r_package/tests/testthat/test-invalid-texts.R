# A text whose bytes are not valid in its encoding fails alone; the other texts are answered.

invalid <- "caf\xe9"
Encoding(invalid) <- "UTF-8"
texts <- c(a = "x", b = invalid, c = NA, d = "y")

test_that("an invalid text fails alone in every call with a vector of texts", {
  context <- local_context()
  model <- context$model
  calls <- list(
    \() attr(generate_parallel(context, texts), "errors"),
    \() attr(generate_parallel(context, texts, chat = TRUE), "errors"),
    \() attr(classify_parallel(context, texts, c("yes", "n")), "errors"),
    \() attr(score_parallel(context, texts, "n"), "errors"),
    \() attr(score_parallel(context, rep("x", 4), unname(texts)), "errors"),
    \() attr(score_parallel(context, rep("x", 4), as.list(unname(texts))), "errors"),
    \() attr(perplexity(context, texts), "errors"),
    \() attr(embed_parallel(model, texts), "errors"),
    \() attr(chat(context)$ask_all(texts), "errors"),
    \() {
      annotate_texts(
        data.frame(texts),
        texts,
        codebook("q", c("yes", "n")),
        context
      )$error
    }
  )
  for (call in calls) {
    expect_warning(errors <- call(), class = "llamaherd_warning_failed")
    expect_identical(is.na(errors[c(1, 4)]), c(TRUE, TRUE), info = deparse(body(call)))
    expect_match(
      errors[[2]],
      "not valid text in its encoding",
      info = deparse(body(call))
    )
  }
})

test_that("an invalid text stops a coding that is to stop", {
  context <- local_context()
  book <- codebook("q", c("yes", "n"))
  expect_error(
    annotate_texts(data.frame(texts), texts, book, context, on_error = "stop"),
    "Row 2 failed: the text is not valid text",
    class = "llamaherd_error_generation"
  )
})

test_that("invalid and missing texts have the tokens NA", {
  context <- local_context()
  expect_warning(
    tokens <- tokenize(context$model, texts),
    "1 of 4 texts has the tokens NA",
    class = "llamaherd_warning_failed"
  )
  expect_named(tokens, names(texts))
  expect_identical(tokens[c("b", "c")], list(b = NA_integer_, c = NA_integer_))
  expect_identical(tokens$d, tokenize(context$model, "y"))
  expect_error(tokenize(context$model, invalid), "must be valid text")
})

test_that("invalid codes and texts of columns are reported, not silently missing", {
  skip_if_no_llamaherd()
  expect_warning(
    agreement(c("a", "b", invalid, "b"), c("a", "b", "a", "b")),
    "1 of 4 values of the column coder 1 is not valid text",
    class = "llamaherd_warning_text"
  )
  data <- data.frame(text = c(invalid, letters[1:8]), label = "u")
  expect_warning(gold_sample(data, 2, text = text, seed = 1), "1 of 9 values")
})

test_that("files in Latin-1 are reported with their name", {
  skip_if_no_llamaherd()
  path <- withr::local_tempfile(fileext = ".jsonl")
  writeBin(c(charToRaw("{\"text\": \"caf"), as.raw(0xe9), charToRaw("\"}\n")), path)
  expect_error(read_spans(path), "not in UTF-8", class = "llamaherd_error_argument")
  expect_error(read_codebook(path), "not in UTF-8", class = "llamaherd_error_argument")
  expect_error(read_gold(c(path)), class = "llamaherd_error_argument")
})

test_that("files that cannot be read are reported with their argument", {
  skip_if_no_llamaherd()
  folder <- withr::local_tempdir()
  for (read in list(read_gold, reproduce)) {
    error <- expect_error(read(folder), "cannot be", class = "llamaherd_error_argument")
    expect_equal(error$argument, "path")
    missing <- file.path(folder, "none.csv")
    expect_error(read(missing), "none.csv", class = "llamaherd_error_argument")
  }
})

test_that("valid texts in any declared encoding are shown as they are", {
  latin <- "caf\xe9 cr\xe8me"
  Encoding(latin) <- "latin1"
  utf8 <- enc2utf8(latin)
  expect_identical(encode(latin), utf8)
  expect_identical(shorten(latin, 60L), utf8)
  expect_identical(describe(latin), deparse1(utf8))
  expect_identical(encode(invalid), "(not valid text)")
  skip_if_not(l10n_info()[["UTF-8"]], "R prints UTF-8")
  printed <- capture.output(print_rows(data.frame(text = latin), 5, 80))
  expect_match(printed[[2]], utf8, fixed = TRUE)
  result <- structure(
    latin,
    names = latin,
    answers = latin,
    errors = NA_character_,
    finish_reason = "stop",
    class = c("llamaherd_result", "character")
  )
  expect_match(capture.output(print(c(result)))[[1]], utf8, fixed = TRUE)
})
