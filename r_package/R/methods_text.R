#' Write a methods paragraph
#'
#' Writes a paragraph for an article, based only on the recorded data: model, codebook, temperature,
#' thinking, calibration, draw of the coded texts, agreement and estimators. The function also
#' returns the BibTeX entries of the works that the text cites. The text does not mention steps that
#' were not done; the checklist marks these steps as open.
#'
#' @inheritParams report
#' @param x Return value of [annotate_texts()]; or the path of a report that [report()] wrote. The
#'   other arguments are then read from the report.
#' @returns A list of class `llamaherd_methods`, which prints as text and BibTeX:
#'
#'   * `text`: the paragraph.
#'   * `bibtex`, `references`: the BibTeX entries, and their keys.
#'   * `checklist`: a data frame with one row per question that reviewers ask. The columns are
#'     `question`, `state` (`"answered"` or `"open"`), `answer` (the answer, or what to add) and
#'     `sources` (the guidelines that ask the question).
#' @seealso [report()], which contains this paragraph
#' @export
#' @examplesIf !is.null(llamaherd_example_model())
#' news <- read.csv(system.file("extdata", "headlines.csv", package = "llamaherd"))
#' news <- news[c(1:3, 16:18, 31:33, 46:48), ]
#' topics <- codebook("Label the topic of each news text.", unique(news$topic))
#' context <- context_create(model_load(llamaherd_example_model()))
#' coded <- annotate_texts(news, text, topics, context)
#'
#' methods <- methods_text(coded, validation = validate(coded, gold = news$topic))
#' cat(strwrap(methods$text), sep = "\n")
#' writeLines(methods$bibtex, tempfile(fileext = ".bib"))
#' subset(methods$checklist, state == "open")$question
methods_text <- function(
  x,
  validation = NULL,
  estimates = NULL,
  robustness = NULL,
  evaluation = NULL
) {
  error_call <- rlang::current_env()
  check_given(x)
  is_path <- is.character(x)
  path <- if (is_path) existing_file(x, error_call)
  if (!is_path) {
    check_coded(x, error_call)
  }
  parts <- parts_for_report(
    validation,
    estimates,
    robustness,
    evaluation,
    error_call
  )
  given <- names(Filter(length, parts))
  if (is_path && length(given) > 0) {
    abort(
      "{.arg {given[[1]]}} must be left out: the report has its own results.",
      "argument",
      error_call
    )
  }
  found <- py_call(
    "methods_text",
    if (!is_path) coded_for_report(x, error_call),
    path,
    parts,
    error_call = error_call
  )
  structure(
    list(
      text = found[["text"]],
      bibtex = found[["bibtex"]],
      references = as_text(found[["references"]]),
      checklist = as.data.frame(lapply(found[["checklist"]], as_text))
    ),
    class = "llamaherd_methods"
  )
}

existing_file <- function(x, error_call) {
  path <- expand_path(check_string(x, "x", error_call = error_call))
  if (!file_exists(path) || dir_exists(path)) {
    abort_argument("x", "coded texts or the path of an existing report", x, error_call)
  }
  path
}

#' @export
format.llamaherd_methods <- function(x, ...) {
  c(strwrap(x$text, getOption("width")), "", strsplit(x$bibtex, "\n")[[1]])
}

#' @export
print.llamaherd_methods <- function(x, ...) {
  show_lines(format(x, ...), most = Inf)
  invisible(x)
}
