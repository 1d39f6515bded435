# options(OutDec = ",") changes what format() and, before R 4.3, as.character() make of numbers.

test_that("numbers keep their point on the way to Python and to files", {
  skip_if_no_llamaherd()
  withr::local_options(OutDec = ",")
  expect_identical(number_texts(c(0.5, 1, 1e6)), c("0.5", "1", "1000000"))
  expect_identical(value_text(c(0.5, NA, 2)), c("0.5", NA, "2"))
  expect_identical(as_utf8(0.25), "0.25")
  expect_identical(getOption("OutDec"), ",")
  expect_identical(template_section(c(0.5, 1), 2L, "Scores"), c("0.5", "1"))
  part <- template_section(list(list(score = 0.5)), 1L, "Examples")
  expect_identical(part, "### Example 1\n- score: 0.5")
  expect_identical(lines_sha256(c(0.5, NA)), lines_sha256(c("0.5", "NA")))
  path <- withr::local_tempfile(fileext = ".csv")
  annotation_sink_csv(path)(data.frame(x = c(0.5, 1), y = c(TRUE, NA)), "m")
  expect_identical(readLines(path)[2:3], c("0.5,TRUE", "1,NA"))
})

test_that("all methods that print or format use a point", {
  table <- get(".__S3MethodsTable__.", baseenv())
  methods <- grep("^(format|print)[.].*llamaherd_", names(table), value = TRUE)
  expect_gt(length(methods), 60L)
  for (name in methods) {
    expect_identical(body(table[[name]])[[2]], quote(local_point()), info = name)
  }
})

test_that("printed numbers have a point", {
  frame <- data.frame(label = c("a", "b"), value = c(0.25, 1234.5))
  as_class <- \(class, ...) structure(frame, class = c(class, "data.frame"), ...)
  all <- list(
    structure(matrix(c(0.25, 0.5), 1L), class = c("llamaherd_vectors", "matrix")),
    as_class("llamaherd_span_validation"),
    as_class("llamaherd_spans"),
    as_class("llamaherd_pair_agreement"),
    as_class("llamaherd_table", finish_reason = c("stop", "stop"))
  )
  for (x in all) {
    lines <- capture.output(print(x))
    withr::with_options(list(OutDec = ","), {
      expect_identical(capture.output(print(x)), lines)
      expect_identical(getOption("OutDec"), ",")
    })
    expect_match(lines, "[0-9][.][0-9]", all = FALSE)
  }
  withr::local_options(OutDec = ",")
  expect_identical(column_text(c(0.25, 0.5)), c("0.25", "0.50"))
  expect_identical(tick_labels(c(0.5, NA, 1)), c("0.5", NA, "1.0"))
  expect_output(print_rows(frame, 5L, 60L), "0.25", fixed = TRUE)
})

test_that("a model and an agreement print without a warning", {
  context <- local_context()
  withr::local_options(OutDec = ",")
  expect_no_warning(format(context$model))
  expect_no_warning(big(12345))
  expect_identical(big(12345), "12,345")
})

test_that("labels with decimals are the same labels", {
  skip_if_no_llamaherd()
  withr::local_options(OutDec = ",")
  book <- codebook("How much?", c(0.5, 1, 1.5), type = "ordinal")
  expect_named(book$labels, c("0.5", "1", "1.5"))
  expect_true(book$is_numeric)
  labels <- c(0.5, 1, 1.5, 1)
  validation <- suppressWarnings(validate(
    labels,
    data.frame(a = labels, b = c("0.5", "1", "1.5", "1"))
  ))
  accuracy <- validation$table$value[validation$table$measure == "accuracy"]
  expect_identical(accuracy[[1]], 1)
})
