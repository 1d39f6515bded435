# Tests coded texts that are a data.table, with the operations of data.table.

coded_table <- function() {
  data <- data.table::data.table(
    text = letters[1:6],
    label = factor(c("a", "b", "a", "b", "a", "a")),
    x = 1:6
  )
  coding <- list(
    text = "text",
    label = "label",
    needs = c("text", "label"),
    probs = character(),
    columns = c(label = "label")
  )
  as_coded(data, coding)
}

# Evaluates the code outside the package, like a user's code.
outside <- new.env(parent = globalenv())
with_table <- function(code, r) {
  outside$r <- r
  eval(substitute(code), outside)
}

is_coded <- function(x) inherits(x, "llamaherd_coded") && !is.null(attr(x, "llamaherd"))

test_that("a data.table is one after it was coded", {
  skip_if_not_installed("data.table")
  r <- coded_table()
  expect_s3_class(r, c("llamaherd_coded", "data.table", "data.frame"), exact = TRUE)
  counts <- with_table(r[, .N, by = label], r)
  expect_identical(counts$N, c(4L, 2L))
  expect_false(inherits(counts, "llamaherd_coded"))
  expect_identical(with_table(r[1:2], r)$text, c("a", "b"))
  expect_identical(nrow(with_table(r[label == "a"], r)), 4L)
  expect_identical(with_table(r[order(-x), x], r), 6:1)
  expect_identical(with_table(r[, sum(x)], r), 21L)
  expect_true(is_coded(with_table(r[x > 3, .(text, label)], r)))
  expect_false(is_coded(with_table(r[, .(text)], r)))
  expect_identical(with_table(r[x > 2][label == "a", x], r), c(3L, 5L, 6L))
})

test_that("columns are added by reference, and changed labels have no record", {
  skip_if_not_installed("data.table")
  r <- coded_table()
  expect_no_warning(with_table(r[, y := x * 2], r))
  expect_silent(print(with_table(r[, z := 0], r)))
  expect_output(print(r), "6 texts")
  expect_identical(r$y, 1:6 * 2)
  expect_true(is_coded(r))
  with_table(r[1, label := "b"], r)
  expect_false(is_coded(r))
  expect_true(data.table::is.data.table(r))
  r <- coded_table()
  with_table(r[, text := NULL], r)
  expect_false(is_coded(r))
  r <- coded_table()
  data.table::setnames(r, "label", "topic")
  expect_identical(coded_columns(r), list())
})

test_that("other ways to change a data.table keep or drop the record", {
  skip_if_not_installed("data.table")
  r <- coded_table()
  r$w <- 1
  expect_true(is_coded(r))
  expect_no_warning(with_table(r[, y := 1], r))
  expect_warning(r$label <- "a", class = "llamaherd_warning_record")
  expect_false(is_coded(r))
  names(r)[names(r) == "x"] <- "z"
  expect_identical(with_table(r[z == 2, text], r), "b")
  plain <- as.data.frame(coded_table())
  expect_identical(class(plain), "data.frame")
  expect_output(print(coded_table()), "<llamaherd_coded> 6 texts: a 4, b 2")
  data <- data.frame(text = c("x", "y"), label = factor(c("a", "a"), c("a", "b")))
  expect_output(
    print(as_coded(data, attr(coded_table(), "llamaherd"))),
    "<llamaherd_coded> 2 texts: a 2; none: b\n",
    fixed = TRUE
  )
})

test_that("only the table that `:=` changed is not printed, once", {
  skip_if_not_installed("data.table")
  r <- coded_table()
  with_table(r[, y := 1], r)
  the$not_printed <- rlang::new_weakref(attr(r, ".internal.selfref"))
  expect_silent(print(r))
  expect_output(print(r), "6 texts")
  # Tables that are made where earlier tables were may have their addresses.
  printed <- vapply(
    1:50,
    \(i) {
      r <- coded_table()
      with_table(r[, y := 1], r)
      outside$r <- NULL
      rm(r)
      gc(full = FALSE)
      length(capture.output(print(coded_table())))
    },
    0L
  )
  expect_true(all(printed > 0))
})
