book <- function(...) codebook("Which?", c(yes = "", n = ""), ...)

coded_by_fake <- function(context) {
  data <- data.frame(id = 1:3, text = c("x", NA, "y"))
  annotate_texts(data, text, book(), context, verbosity = -1)
}

test_that("labels, probabilities and how they came about arrive", {
  context <- local_context()
  coded <- coded_by_fake(context)
  path <- withr::local_tempfile(fileext = ".html")
  expect_invisible(report(coded, path, texts = FALSE, n_examples = 3))
  sent <- jsonlite::read_json(path)
  expect_identical(sent[[1]]$text, "text")
  expect_identical(sent[[1]]$texts, list("x", NULL, "y"))
  expect_identical(sent[[1]]$labels, list("yes", NULL, "yes"))
  expect_identical(sent[[1]]$names, list("yes", "n"))
  expect_equal(sent[[1]]$probs[[1]], list(0.5, coded$p_n[[1]]))
  expect_identical(sent[[1]]$run, attr(coded, "llamaherd")$run_json)
  parts <- c("validation", "estimates", "robustness", "evaluation")
  none <- rlang::rep_named(parts, list(NULL))
  expect_identical(sent[[2]], c(none, list(texts = FALSE, n_examples = 3L)))
})

test_that("rows may be left out, probabilities too", {
  context <- local_context()
  coded <- coded_by_fake(context)
  path <- withr::local_tempfile(fileext = ".html")
  report(coded[3, c("text", "label")], path)
  sent <- jsonlite::read_json(path)[[1]]
  expect_identical(sent$texts, list("y"))
  expect_null(sent$probs)
  expect_null(sent$errors)
})

test_that("changed probabilities are refused", {
  context <- local_context()
  coded <- coded_by_fake(context)
  path <- withr::local_tempfile(fileext = ".html")
  for (name in c("prob", "p_n")) {
    changed <- coded
    changed[[name]][[3]] <- 0.123
    expect_error(
      report(changed, path),
      "Row 3 of `x`",
      class = "llamaherd_error_argument"
    )
  }
  report(coded[3:2, setdiff(names(coded), "p_n")], path)
})

test_that("what is no part of a report is named", {
  context <- local_context()
  coded <- coded_by_fake(context)
  expect_refused({
    report(data.frame(a = 1))
    report(coded, validation = 3)
    report(coded, 3)
  })
})

test_that("one or several estimates are sent with their titles", {
  one <- structure(list(json = "{}"), class = "llamaherd_estimates")
  titles <- \(x) vapply(several_for_report(x), `[[`, "", "title")
  expect_null(several_for_report(NULL))
  expect_identical(titles(one), "")
  expect_identical(titles(list(one, one)), c("", ""))
  expect_identical(titles(list("By party" = one, one)), c("By party", ""))
  expect_error(titles(list(one, 3)), "`estimates[[2]]`", fixed = TRUE)
  expect_error(titles(3), "`estimates`", class = "llamaherd_error_argument")
})

test_that("a data frame that was joined or read gets back how it came about", {
  context <- local_context()
  coded <- coded_by_fake(context)
  people <- data.frame(id = 3:1, party = c("A", "B", "C"))
  expect_s3_class(merge(coded, people), "llamaherd_coded")
  path <- withr::local_tempfile(fileext = ".csv")
  write.csv(merge(people, coded)[3:2, ], path, row.names = FALSE)
  joined <- read.csv(path)
  expect_refused(report(joined, "r.html"))
  restored <- coded_restore(joined, coded)
  expect_identical(restored$label, coded$label[c(3, 2)])
  expect_identical(restored$party, c("A", "B"))
  html <- withr::local_tempfile(fileext = ".html")
  report(restored, html)
  expect_identical(jsonlite::read_json(html)[[1]]$texts, list("y", NULL))
  expect_identical(attr(restored, "llamaherd"), attr(coded, "llamaherd"))
  wrong <- replace(joined, "label", c("n", NA))
  expect_refused({
    coded_restore(wrong, coded)
    coded_restore(data.frame(text = "z", label = "yes"), coded)
    coded_restore(joined["text"], coded)
    coded_restore(coded, joined)
    coded_restore(3, coded)
  })
})

test_that("texts of an expression are in the report", {
  context <- local_context()
  data <- data.frame(title = c("a", "fail"), body = c("b", "c"), text = c("not", "these"))
  coded <- annotate_texts(data, paste(title, body), book(), context, verbosity = -1)
  expect_identical(coded$coded_text, c("a b", "fail c"))
  path <- withr::local_tempfile(fileext = ".html")
  report(coded[1, ], path)
  sent <- jsonlite::read_json(path)[[1]]
  expect_identical(sent$text, "coded_text")
  expect_identical(sent$texts, list("a b"))
  named <- \(name) {
    columns <- c(coded_text = name)
    book <- book()
    annotate_texts(
      data,
      paste(title, body),
      book,
      context,
      columns = columns,
      verbosity = -1
    )
  }
  expect_identical(named("both")$both, coded$coded_text)
  expect_refused(report(named(NA), path))
})

test_that("what reproduce() is given arrives, and texts go along", {
  fake <- local_fake()
  expect_refused(reproduce("r.html", "m.gguf", n_seq_max = 4))
  sent <- fake$seen("call_start")
  expect_match(sent, "'path': 'r.html', 'model': 'm.gguf', 'data': None", fixed = TRUE)
  expect_match(sent, "'n_seq_max': 4", fixed = TRUE)
  data <- data.frame(said = c("a", NA), text = c("b", "c"))
  expect_refused(reproduce("r.html", data = data))
  expect_match(fake$seen("call_start"), "['b', 'c']", fixed = TRUE)
  expect_refused(reproduce("r.html", data = data, text = "said"))
  expect_match(fake$seen("call_start"), "['a', None]", fixed = TRUE)
  expect_refused({
    reproduce("r.html", data = data, text = "nothing")
    reproduce("r.html", data = 3)
    reproduce("r.html", 3)
  })
})

test_that("results of validate_spans() are refused with advice", {
  validation <- structure(list(), class = c("llamaherd_span_validation", "data.frame"))
  expect_errors(
    "must be the result of validate\\(\\).*print\\(\\) or plot\\(\\)" = parts_for_report(
      validation,
      NULL,
      NULL,
      NULL
    )
  )
})

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

test_that("results of an earlier version are refused", {
  for (class in c("validation", "robustness", "evaluation")) {
    old <- structure(list(n = 9L), class = paste0("llamaherd_", class))
    parts <- rlang::rep_named(c("validation", "estimates", "robustness"), list(NULL))
    parts["evaluation"] <- list(NULL)
    parts[[class]] <- old
    expect_error(do.call(parts_for_report, parts), "computed by an earlier version")
  }
})

test_that("what is found prints as text and BibTeX", {
  x <- structure(
    list(text = "We coded.\n\nPeople coded.", bibtex = "@misc{a,\n}"),
    class = "llamaherd_methods"
  )
  lines <- capture.output(print(x))
  expect_identical(lines, c("We coded.", "", "People coded.", "", "@misc{a,", "}"))
})
