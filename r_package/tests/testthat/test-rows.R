# Coded texts print as a few rows, with the columns that fit into the width.

coded_rows <- function(n, context = local_context(parent.frame())) {
  force(context) # skips the test without Python
  data <- data.frame(
    a_long_name_of_a_column = seq_len(n),
    another_long_name_of_a_column = rep("something of some length", n),
    text = sprintf("Text %d has more words than there is room for in a line.", seq_len(n))
  )
  book <- codebook("Which?", c(yes = "", n = ""))
  annotate_texts(data, text, book, context, verbosity = -1)
}

test_that("coded texts print as ten rows, the label first of all", {
  coded <- coded_rows(12)
  expect_page(print(coded, width = 80))
  expect_page(print(coded[1:2, ], width = 40))
  expect_output(print(coded, n = 2L), "... 10 more rows", fixed = TRUE)
  lines <- capture.output(print(coded, width = 60))
  expect_true(all(nchar(lines[-1], "width") <= 60))
  expect_output(print(coded[0, ]), "<llamaherd_coded> 0 texts\n", fixed = TRUE)
})

test_that("columns without a name are printed", {
  frame <- data.frame(a = 1:2, b = c("x", "y"), c = 3:4)
  names(frame) <- c("", NA, "c")
  expect_output(print_rows(frame, 2L, 80L), "(no name)", fixed = TRUE)
  expect_output(print_rows(frame, 2L, 80L), "(no name).1", fixed = TRUE)
})

test_that("cells are short, whatever is in them", {
  expect_identical(cells_of(c("a\nb", NA)), c("a\\nb", "NA"))
  expect_identical(nchar(cells_of(strrep("x", 100))), 36L)
  expect_identical(cells_of(list(1, "a")), c("<numeric>", "<character>"))
  expect_identical(cells_of(c(1 / 3, NA)), c("0.333", "   NA"))
  expect_identical(cells_of(as.Date("2020-01-02")), "2020-01-02")
  # No column hides that a share is not 0 or 1.
  expect_identical(cells_of(c(0.9996, 0.5)), c("0.9996", "0.5000"))
  expect_identical(cells_of(c(0.00004, 1, NA)), c("4e-05", "1e+00", "   NA"))
  expect_identical(cells_of(c(1, 0, 3)), c("1", "0", "3"))
})

test_that("tibbles print, whether tibble is there and loaded or not", {
  coded <- coded_rows(3)
  class(coded) <- c("llamaherd_coded", "tbl_df", "tbl", "data.frame")
  expect_output(print(coded, width = 40, tibble = FALSE), "3 texts.*label.*more columns")
})

test_that("words are in the plural for all numbers but one", {
  expect_identical(plural(1, "row"), "row")
  expect_identical(plural(0, "row"), "rows")
})

test_that("a print of a thousand rows shows the first and counts the others", {
  names <- sprintf("label %d", 1:1000)
  object <- structure(
    list(page = sprintf("line %d", 1:1000)),
    class = c("llamaherd_robustness", "llamaherd_object")
  )
  lines <- capture.output(print(object))
  expect_lt(length(lines), 210)
  expect_match(paste(lines, collapse = "\n"), "\\.\\.\\. and [0-9,]+ more")
  # An object of an earlier version has no page.
  old <- structure(list(method = "batch", n = 5L), class = "llamaherd_calibration")
  expect_output(print(old), "batch")
  expect_identical(first_lines(c("a", "b"), 2L), c("a", "b"))
  expect_identical(first_lines(names, 1L, "row"), c("label 1", "... and 999 more rows"))
  answers <- new_table(data.frame(x = 1:1200), NULL, finish_reason = rep("stop", 1200))
  printed <- "<llamaherd_table> 1,200 of 1,200 prompts answered.*[.]{3} 1,180 more rows"
  expect_output(print(answers), printed)
})
