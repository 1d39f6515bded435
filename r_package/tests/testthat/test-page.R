# Printed results are as wide as the console, whatever width Python wrote them for.

shown_at <- function(width, x) {
  withr::local_options(width = width)
  capture.output(print(x))
}

words_of <- \(lines) unlist(strsplit(trimws(lines), " +"))

test_that("results fit the console, and lose no number", {
  skip_if_no_llamaherd()
  withr::local_seed(1)
  data <- data.frame(text = sprintf("text %d", 1:90), group = c("x", "y"))
  data$label <- c("a label that has a name of many words", "pro", "con")
  data$prob <- stats::runif(90, 0.4, 1)
  codes <- replace(data$label, sample(90, 20), "pro")
  coders <- list(anna = codes, bert = sample(codes), cara = codes)
  book <- codebook(
    strrep("Is it the one or the other? ", 6),
    c(pro = strrep("For it. ", 20), con = "")
  )
  pages <- suppressWarnings(list(
    validate(data, coders, prob = "prob"),
    estimate(data, codes, prob = "simple", by = group),
    estimate(data, codes, label == "pro" ~ group, prob = "simple"),
    summary(estimate(data, codes, label == "pro" ~ group, prob = "simple")),
    gold_size(compare = 0.05),
    book
  ))
  for (page in pages) {
    for (width in c(50, 80)) {
      lines <- shown_at(width, page)
      expect_lte(max(nchar(lines, "width")), width, label = class(page)[[1]])
      numbers <- \(lines) sort(grep("[0-9]", words_of(lines), value = TRUE))
      expect_identical(setdiff(numbers(shown_at(200, page)), numbers(lines)), character())
    }
  }
  page <- pages[[1]]
  expect_identical(summary(page), page)
})

test_that("lines that stand by themselves are not joined", {
  page <- c(
    "<x> 80 of 400 texts, drawn at random, a fixed number of texts in each of the three strata",
    "inclusion probabilities from 0.197 to 0.203"
  )
  expect_identical(fitted_page(page, 100L), page)
  expect_identical(fitted_page(page, 60L)[[3]], page[[2]])
})

test_that("a backslash in a column has its own width", {
  page <- c(
    "model \\ people  yes   no",
    "yes               1    2",
    "no                3   40"
  )
  for (width in 19:27) {
    lines <- fitted_page(page, width)
    expect_lte(max(nchar(lines)), width)
    expect_length(lines, if (width < 24) 6L else 3L)
  }
})

test_that("sentences are wrapped again, and columns without room follow below", {
  page <- c(
    "<x> head",
    "",
    "label of a row     first  second",
    "one             1.00 [0]     2.0",
    "two                            -",
    "",
    "! A sentence that Python wrapped because the next word had no room at the end of its line",
    "  it goes on."
  )
  expect_identical(fitted_page(page, 100L)[1:6], page[1:6])
  expect_identical(
    fitted_page(page, 26L),
    c(
      "<x> head",
      "",
      "label of a row     first",
      "one             1.00 [0]",
      "two",
      "label of a row  second",
      "one                2.0",
      "two                  -",
      "",
      "! A sentence that Python",
      "  wrapped because the next",
      "  word had no room at the",
      "  end of its line it goes",
      "  on."
    )
  )
  expect_identical(fitted_page(character(), 40L), character())
})

test_that("a prompt is shown as the model gets it", {
  skip_if_no_llamaherd()
  question <- trimws(strrep("Is it? ", 30))
  text <- "a  table  of  a  text"
  lines <- shown_at(40, prompt_preview(codebook(question, c("yes", "no")), text))
  expect_in_lines <- \(line) expect_match(lines, line, fixed = TRUE, all = FALSE)
  expect_in_lines(question)
  expect_in_lines(text)
})
