test_that("a methods paragraph is asked for with all parts", {
  context <- local_context()
  data <- data.frame(text = c("x", NA, "y"))
  book <- codebook("Which?", c(yes = "", n = ""))
  coded <- annotate_texts(data, text, book, context, verbosity = -1)
  expect_error(methods_text(data), class = "llamaherd_error_argument")
  expect_error(methods_text(coded, 3), "`validation`", class = "llamaherd_error_argument")
  expect_error(methods_text("none.html"), "`x`", class = "llamaherd_error_argument")
  parts <- parts_for_report(NULL, NULL, NULL, NULL)
  expect_named(parts, c("validation", "estimates", "robustness", "evaluation"))
})

test_that("an evaluation goes into a report by its choice", {
  x <- structure(
    list(
      choice = list(json = "{}"),
      value = data.frame(measure = "kappa", value = 0.5, low = 0.4, high = 0.6),
      n = 9L,
      n_failed = 1L,
      opened = data.frame(at = c("a", "b")),
      notes = "again"
    ),
    class = "llamaherd_evaluation"
  )
  sent <- evaluation_for_report(x)
  expect_identical(sent$n_openings, 2L)
  expect_identical(sent$notes, list("again"))
  expect_identical(sent$high, 0.6)
})

test_that("what is found prints as text and BibTeX", {
  x <- structure(
    list(text = "We coded.\n\nPeople coded.", bibtex = "@misc{a,\n}"),
    class = "llamaherd_methods"
  )
  lines <- capture.output(print(x))
  expect_identical(lines, c("We coded.", "", "People coded.", "", "@misc{a,", "}"))
})
