test_that("codebooks arrive as JSON", {
  local_fake()
  arrives <- function(..., json) {
    sent <- jsonlite::parse_json(codebook("Q?", ...)$content)
    expected <- jsonlite::parse_json(json)
    expect_identical(sent[names(expected)], expected)
  }
  pairs <- data.frame(text = c("x", "y"))
  arrives(
    c(a = "x", "b"),
    json = '{"question": "Q?", "labels": {"a": "x", "b": ""}, "type": "label"}'
  )
  arrives(
    factor(c("lo", "hi"), levels = c("lo", "hi"), ordered = TRUE),
    json = '{"question": "Q?", "labels": {"lo": "", "hi": ""}, "type": "ordinal"}'
  )
  arrives(
    c("a", "b"),
    examples = cbind(pairs, label = factor(c("b", "a")), reason = c(NA, "r")),
    text_role = "Tweet",
    words = c(told = ""),
    json = '{"question": "Q?", "labels": {"a": "", "b": ""}, "type": "label", "examples":
      [{"text": "x", "label": "b"}, {"text": "y", "label": "a", "reason": "r"}],
      "text_role": "Tweet", "words": {"told": ""}}'
  )
  arrives(
    number_scale(0, 10, names = c("not", "very")),
    examples = cbind(pairs, label = c(0, 10)),
    json = '{"question": "Q?", "scale": {"from": 0, "to": 10,
      "step": 1, "names": {"0": "not", "10": "very"}}, "type": "scale",
      "examples": [{"text": "x", "label": "0"}, {"text": "y", "label": "10"}]}'
  )
  arrives(
    c("a", "b"),
    type = "multiple",
    examples = cbind(pairs, label = I(list("a", character()))),
    json = '{"question": "Q?", "labels": {"a": "", "b": ""}, "type": "multiple", "examples":
      [{"text": "x", "label": ["a"]}, {"text": "y", "label": []}]}'
  )
  arrives(
    schema = type_object(n = type_integer()),
    examples = data.frame(text = "x", label = I(list(list(n = 1L)))),
    json = '{"question": "Q?", "type": "fields", "schema": {"type": "object", "properties":
      {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": false},
      "examples": [{"text": "x", "label": {"n": 1}}]}'
  )
})

test_that("codebooks print, and come back from files", {
  local_fake()
  book <- codebook("Q?", c(a = "x", b = "y"))
  expect_page(book)
  expect_identical(book$labels, c(a = "x", b = "y"))
  path <- withr::local_tempfile(fileext = ".yaml")
  expect_identical(expect_invisible(write_codebook(book, path)), book)
  expect_identical(write_codebook(book, path, overwrite = TRUE), book)
  expect_identical(read_codebook(path), book)
})

test_that("prompts are shown", {
  context <- local_model_context()
  book <- codebook("Q?", c("a", "b"))
  expect_page({
    prompt_preview(book, "It rains.")
    prompt_preview(book, "It rains.", context)
  })
  preview <- prompt_preview(book, "x", context)
  expect_identical(preview$tokens, tokenize(context$model, preview$prompt))
})

test_that("numbers are labels", {
  local_fake()
  expect_named(codebook("Which?", c(0, 1))$labels, c("0", "1"))
  expect_named(codebook("Which?", c(1e5, 0.1, -2))$labels, c("100000", "0.1", "-2"))
  expect_named(codebook("Which?", 1:3, type = "ordinal")$labels, c("1", "2", "3"))
  expect_page(codebook("Which?", c(TRUE, FALSE)))
  expect_refused(codebook("Which?", c(0, NA)))
})

test_that("misspelt arguments, columns and fields suggest what is meant", {
  local_fake()
  expect_identical(closest("lable", c("text", "label", "reason")), "label")
  expect_null(closest("abc", c("text", "label", "reason")))
  expect_error(codebook("Which?", lables = c("a", "b")), "Did you mean `labels`")
  expect_error(codebook("Which?", c("a", "b"), zzz = 1), "cannot take `zzz`")
  examples <- data.frame(text = "x", lable = "a")
  meant <- 'did you mean "label"?'
  of <- \(examples) codebook("Which?", c("a", "b"), examples = examples)
  expect_error(of(examples), meant, fixed = TRUE)
  local_real()
  lines <- c("question: Which?", "lables: [a, b]")
  path <- withr::local_tempfile(lines = lines, fileext = ".yaml")
  message <- 'line 2: `lables` is not a field of a codebook; did you mean "labels"'
  expect_error(read_codebook(path), message)
})

test_that("a full disk is an error that names the file", {
  skip_if_no_llamaherd()
  skip_if_not(file.exists("/dev/full"))
  book <- codebook("Which?", c("a", "b"))
  message <- "/dev/full' cannot be used: No space left on device; free space"
  class <- "llamaherd_error_argument"
  expect_error(write_codebook(book, "/dev/full"), message, class = class)
})

test_that("scales are checked by Python, and shown", {
  local_real()
  scale <- number_scale(-1, 1, 0.5, names = c("-1" = "disagrees", "1" = "agrees"))
  expect_identical(scale$values, c(-1, -0.5, 0, 0.5, 1))
  expect_identical(scale$names, c("-1" = "disagrees", "1" = "agrees"))
  expect_page(scale)
  expect_page(codebook("Does the author agree?", scale))
  named <- number_scale(0, 2, names = c("no", "yes"))
  expect_identical(named$names, c("0" = "no", "2" = "yes"))
  book <- codebook("Q?", number_scale(0, 3))
  expect_identical(book$type, "scale")
  expect_identical(book$measured, "interval")
  expect_named(book$labels, as.character(0:3))
  path <- withr::local_tempfile(fileext = ".yaml")
  write_codebook(book, path)
  expect_identical(read_codebook(path), book)
})

test_that("ready codebooks are codebooks, and listed with their sources", {
  local_real()
  books <- list_ready_codebooks()
  expect_true(all(c("sentiment", "stance", "policy_topics") %in% books$name))
  expect_true(all(nzchar(books$sources)))
  expect_identical(books$needs_target, books$name == "stance")
  book <- ready_codebook("sentiment")
  expect_s3_class(book, "llamaherd_codebook")
  expect_named(book$labels, c("positive", "negative", "neutral"))
  stance <- ready_codebook("stance", target = "nuclear energy")
  expect_match(stance$question, "towards nuclear energy?", fixed = TRUE)
  path <- withr::local_tempfile(fileext = ".yaml")
  write_codebook(stance, path)
  expect_identical(read_codebook(path), stance)
  expect_errors(
    "`name` must be" = ready_codebook("x"),
    "`target` must be" = ready_codebook("stance"),
    "`target` must be" = ready_codebook("emotion", "x"),
    ready_codebook(3)
  )
})

test_that("models are suggested by memory", {
  local_real()
  models <- llamaherd_models(memory_gb = 8)
  columns <- c("source", "memory_gb", "size_bytes", "fits", "measured", "published")
  expect_named(models, columns)
  expect_identical(models$fits, c(TRUE, TRUE, FALSE, FALSE))
  expect_type(llamaherd_models()$fits, "logical")
  expect_error(llamaherd_models(0), "memory_gb", class = "llamaherd_error_argument")
  expect_error(llamaherd_models("8"), class = "llamaherd_error_argument")
})
