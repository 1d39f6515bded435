# Results of Python in their one form: types, the methods of all classes, files.

part <- function(kind, called, ...) list(type = kind, name = called, ...)
vector <- function(kind, called, ...) part(kind, called, values = list(...))

table_of <- function(called, n, ..., class = NULL) {
  c(
    part("table", called, n = n, columns = list(...)),
    if (!is.null(class)) list(class = class)
  )
}

example_object <- function(json = NULL) {
  summary <- table_of(
    "summary",
    2L,
    vector("text", "größe", "a", NULL),
    vector("number", "größe", 0.5, NaN),
    vector("integer", "n", 3, NaN),
    vector("flag", "is_x", TRUE, NULL),
    vector("date", "on", "2026-01-31", NULL),
    part("factor", "label", values = c(2L, 0L), levels = list("no", "yes"))
  )
  pairwise <- vector("matrix", "pairwise", 1, 2, 3, NaN)
  pairwise[c("rows", "columns")] <- list(list("a", "b"), list("c", "d"))
  bias <- c(vector("number", "bias", 1, 2), list(names = list("low", "high")))
  parts <- list(
    summary,
    table_of("none", 0L, vector("text", "a")),
    pairwise,
    part("value", "alpha", value = NULL),
    part("json", "settings", value = "{\"chat\": true}"),
    bias
  )
  from_python(list(
    type = "object",
    class = "llamaherd_robustness",
    parts = parts,
    page = list("<llamaherd_robustness> 2 texts", "{braces} stay"),
    json = json,
    is_fixed = !is.null(json)
  ))
}

test_that("parts have R's types", {
  object <- example_object()
  table <- object$summary
  expect_identical(names(table)[1:2], c("größe", "größe"))
  expect_identical(table[[1]], c("a", NA))
  expect_identical(table[[2]], c(0.5, NA))
  expect_identical(table$n, c(3L, NA))
  expect_identical(table$is_x, c(TRUE, NA))
  expect_identical(table$on, as.Date(c("2026-01-31", NA)))
  expect_identical(table$label, factor(c("yes", NA), c("no", "yes")))
  expect_identical(dim(object$none), c(0L, 1L))
  expect_identical(
    object$pairwise,
    matrix(c(1, 3, 2, NA), 2, dimnames = list(c("a", "b"), c("c", "d")))
  )
  expect_true("alpha" %in% names(object))
  expect_null(object$alpha)
  expect_identical(object$settings, list(chat = TRUE))
  expect_identical(object$bias, c(low = 1, high = 2))
  expect_identical(from_python(3), 3)
  expect_identical(from_python(list(1, 2)), list(1, 2))
})

test_that("tables may have a class, and results may be lists", {
  coverage <- "llamaherd_coverage"
  curve <- table_of("curve", 1L, vector("number", "coverage", 0.5), class = coverage)
  curve$attributes <- list(part("value", "level", value = 0.9))
  line <- part("value", "line", value = "a line")
  parts <- from_python(list(type = "list", parts = list(curve, line)))
  expect_named(parts, c("curve", "line"))
  expect_s3_class(parts$curve, c("llamaherd_coverage", "data.frame"), exact = TRUE)
  expect_identical(attr(parts$curve, "level"), 0.9)
})

test_that("one print and one data frame serve all classes, also after saveRDS()", {
  path <- withr::local_tempfile(fileext = ".rds")
  saveRDS(example_object(), path)
  object <- readRDS(path)
  expect_identical(object, example_object())
  page <- "<llamaherd_robustness> 2 texts\n{braces} stay"
  expect_output(print(object), page, fixed = TRUE)
  expect_identical(format(object), object$page)
  expect_identical(summary(object), object)
  expect_identical(as.data.frame(object), object$summary)
  expect_error(print(object, digits = 3), class = "llamaherd_error_argument")
  json <- jsonlite::toJSON(object, force = TRUE)
  expect_match(json, "\"pairwise\":[[1,2]", fixed = TRUE)
  skip_if_not_installed("tibble")
  expect_s3_class(tibble::as_tibble(object, .name_repair = "minimal"), "tbl_df")
})

test_that("objects with content for later calls cannot be edited", {
  object <- example_object("{}")
  expect_error(object$alpha <- 1, "cannot be changed", class = "llamaherd_error_argument")
  expect_identical(with_element(object, "alpha", 1)$alpha, 1)
  plain <- example_object()
  plain$alpha <- 1
  expect_identical(plain$alpha, 1)
})

test_that("a long page is cut, with the number of the other lines", {
  object <- structure(
    list(page = sprintf("line %d", 1:1000)),
    class = c("llamaherd_robustness", "llamaherd_object")
  )
  lines <- capture.output(print(object))
  expect_length(lines, 201)
  expect_identical(lines[[201]], "... and 800 more lines")
})
