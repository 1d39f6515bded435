#' Write a report on how labels were made
#'
#' Writes a self-contained HTML page, without scripts or network access. The page contains a methods
#' paragraph with its references for your article, and a checklist of questions that reviewers ask.
#' The page documents the codebook, the exact prompts, the model's file with its SHA-256, settings,
#' versions and the machine, and shows tables, plots, and texts on which model and people disagree.
#' Passages of a codebook with `type = "spans"`, and quotes of `evidence = TRUE`, are highlighted in
#' the texts. The page also contains all data as JSON, from which [reproduce()] repeats the coding.
#'
#' @param x Return value of [annotate_texts()]; rows may have been removed or sorted. Use
#'   [coded_restore()] for a data frame that has lost the record of its labels, for example after a
#'   join or in a CSV file.
#' @param path Path of the file: `".html"` for the page; `".docx"` for a document of Word or
#'   LibreOffice with the same parts, without the JSON; `".json"` for only the JSON.
#'   An existing file is replaced.
#' @param validation Return value of [validate()]. A report does not show results of
#'   [validate_spans()]; print or plot them.
#' @param estimates Return value of [estimate()]; or a list of return values, each with its own
#'   section. The names of the list are the titles of the sections; without names a title is the
#'   formula, or such as "Shares by party".
#' @param robustness Return value of [robustness()]. The first variant must be the labels of `x`;
#'   `robustness(x, ...)` has this first variant.
#'
#'   `validation`, `estimates` and `robustness` must be computed from the texts and labels of `x`:
#'   results that were computed from other labels or other data, or by an earlier version, cause an
#'   error.
#' @param evaluation Return value of [evaluate_codebook()] for the codebook, settings and model of
#'   `x`.
#' @param title Title of the page.
#' @param texts FALSE leaves the texts out of the report, for texts that must not be shared: the
#'   report then contains only their hashes, and [reproduce()] needs the data. The codebook and its
#'   examples are always included. Somebody who guesses a short text can check the guess against the
#'   hashes.
#' @param n_examples Maximum number of texts that the page shows.
#' @returns The path, invisibly. Plots need the Python package matplotlib, and `".docx"` needs
#'   python-docx; [install_llamaherd()] installs both.
#' @seealso [reproduce()], [methods_text()]
#' @concept reproducibility
#' @concept Word
#' @export
#' @examplesIf !is.null(llamaherd_example_model())
#' news <- read.csv(system.file("extdata", "headlines.csv", package = "llamaherd"))
#' news <- news[c(1:3, 16:18, 31:33, 46:48), ]
#' topics <- codebook("Label the topic of each news text.", unique(news$topic))
#' model <- model_load(llamaherd_example_model())
#' context <- context_create(model, deterministic = TRUE)
#' coded <- annotate_texts(news, text, topics, context)
#'
#' path <- tempfile(fileext = ".html")
#' report(coded, path, validation = validate(coded, gold = news$topic))
#' if (interactive()) browseURL(path)
report <- function(
  x,
  path = "report.html",
  validation = NULL,
  estimates = NULL,
  robustness = NULL,
  title = NULL,
  texts = TRUE,
  n_examples = 20L,
  evaluation = NULL
) {
  check_coded(x)
  results <- parts_for_report(validation, estimates, robustness, evaluation)
  path <- expand_path(check_string(path))
  if (!dir_exists(dir_name(path))) {
    abort_argument("path", "a file in a folder that exists", path)
  }
  options <- py_arguments(if (!is.null(title)) "title", "texts", "n_examples")
  coded <- coded_for_report(x)
  written <- r_path(py_call("report", coded, path, !!!results, !!!options))
  document_event(
    "report",
    path = log_path(written),
    sha256 = py_call("file_sha256", written)
  )
  invisible(written)
}

# Returns the other objects of a report, in the form that Python accepts.
parts_for_report <- function(validation, estimates, robustness, evaluation) {
  if (inherits(validation, "llamaherd_span_validation")) {
    hint <- "A report highlights passages, but does not compare them: print() or plot() the result."
    abort_argument("validation", "the result of validate()", validation, hint = hint)
  }
  list(
    validation = stored(validation, "llamaherd_validation"),
    estimates = several_for_report(estimates),
    robustness = stored(robustness, "llamaherd_robustness"),
    evaluation = stored(evaluation, "llamaherd_evaluation")
  )
}

# Returns the content of a result as Python reads it; NULL for NULL.
stored <- function(x, class, arg = rlang::caller_arg(x), title = NULL) {
  check_class(x, class, arg, null = TRUE)
  if (!is.null(x) && is.null(x[["json"]])) {
    abort("{.arg {arg}} was computed by an earlier version: compute it again.")
  }
  if (!is.null(x)) {
    tagged("stored", content = x$json, estimates = x$estimates_json, title = title)
  }
}

# Returns a list with the content of one or several estimates; NULL for none.
several_for_report <- function(estimates) {
  check_given(estimates, arg = "estimates")
  is_list <- is.null(estimates) || rlang::is_bare_list(estimates)
  several <- if (is_list) as.list(estimates) else list(estimates)
  args <- if (is_list) sprintf("estimates[[%d]]", seq_along(several)) else "estimates"
  titles <- rlang::names2(several)
  contents <- lapply(seq_along(several), \(i) {
    check_class(several[[i]], "llamaherd_estimates", args[[i]])
    stored(several[[i]], "llamaherd_estimates", args[[i]], titles[[i]])
  })
  if (length(contents) > 0) contents
}

check_coded <- function(x) {
  check_given(x, arg = "x")
  if (!is.data.frame(x) || inherits(x, "llamaherd_coded")) {
    return(check_class(x, "llamaherd_coded"))
  }
  abort(c(
    "{.arg x} has no record of how its labels were made.",
    x = "Right joins, CSV files, binding rows of several runs and editing labels drop the record
         and keep the columns.",
    i = "{.code coded_restore(x, coded)} restores the record from the return value of
         {.fn annotate_texts}. Report several runs one by one."
  ))
}

coded_for_report <- function(x) {
  check_coded_rows(x, "x")
  check_coded_probs(x, "x")
  coding <- attr(x, "llamaherd")
  if (!isTRUE(coding$text %in% names(x))) {
    abort(c(
      "{.arg x} has no column with the texts that were coded.",
      i = if (is.na(coding$text)) {
        "Texts of an expression are in a column of their own, unless {.arg columns} of
         {.fn annotate_texts} leaves it out."
      } else {
        "The texts were in the column {.field {coding$text}}: do not remove it."
      }
    ))
  }
  c(
    coded_for_python(x, labels_for_report(x, coding)),
    list(original = original_labels(x))
  )
}

# Returns the model's own labels and probabilities; NULL if `x` has them.
original_labels <- function(x) {
  coding <- attr(x, "llamaherd")
  raw <- paste0("raw_", c(coding$label, unname(coding$probs[coding$names])))
  if (length(raw) > 1 && all(raw %in% names(x))) {
    coded_for_python(x, value_text(x[[raw[[1]]]]), raw[-1])
  }
}

labels_for_report <- function(x, coding) {
  if (isTRUE(coding$codebook$type %in% c("fields", "spans"))) {
    if (length(coding$answers) == nrow(x)) {
      return(coding$answers)
    }
  } else if (isTRUE(coding$label %in% names(x))) {
    return(value_text(x[[coding$label]]))
  }
  abort("{.arg x} no longer has all rows or its column of labels.")
}

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
#' @concept BibTeX
#' @concept checklist
#' @concept citation
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
  check_given(x)
  is_path <- is.character(x)
  path <- if (is_path) {
    existing_file(x, "x", "coded texts or the path of an existing report")
  }
  if (!is_path) {
    check_coded(x)
  }
  results <- parts_for_report(validation, estimates, robustness, evaluation)
  py_call("methods_text", path %||% coded_for_report(x), !!!results)
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

#' Repeat the coding of a report
#'
#' Labels the texts of a report again and compares every label and every probability, bit by bit.
#' Model, codebook and texts must be the original ones; different versions and machines are
#' reported. If the context was created with `deterministic = TRUE`, results are identical with the
#' same versions, also in a new session and with another `n_seq_max`. Without `deterministic`
#' results are probably identical. The function finds the model files of later steps (`until`,
#' `larger`) by name and content: next to the report, in the working directory, next to the model's
#' file and in the model cache.
#'
#' @param path Path of a [report()], either the page or the JSON.
#' @param model The model's file; or a model or context. NULL searches for a file of the same name
#'   next to the report, in the working directory and in the model cache.
#' @param data For a report without texts: the data frame that was labelled, with the same rows in
#'   the same order.
#' @param text Column of texts in `data`. NULL uses the original name.
#' @param n_seq_max Maximum number of prompts that run at a time. NULL uses the original value.
#' @param n_threads Number of threads. NULL uses the original value, at most the number of cores.
#' @inheritParams generate_parallel
#' @returns A `llamaherd_reproduction`, which prints the comparison: a list with these elements:
#'
#'   * `same`: TRUE if everything is identical.
#'   * `n`: number of compared rows.
#'   * `n_same`, `n_same_labels`: number of rows with identical results, and number of rows with
#'     identical labels.
#'   * `largest_difference`: largest absolute difference between an original probability and a new
#'     one.
#'   * `deterministic`: whether both runs were deterministic.
#'   * `summary_same`: whether the counts and shares in the report are those of its labels.
#'   * `changed`: a data frame of the rows whose label is different now.
#'   * `versions`: a data frame of the versions and settings that differ now.
#' @seealso [report()]
#' @export
#' @examplesIf !is.null(llamaherd_example_model())
#' news <- read.csv(system.file("extdata", "headlines.csv", package = "llamaherd"))
#' topics <- codebook("Label the topic of each news text.", unique(news$topic))
#' model <- model_load(llamaherd_example_model())
#' context <- context_create(model, deterministic = TRUE)
#' coded <- annotate_texts(news[c(1, 16, 31, 46), ], text, topics, context)
#' path <- tempfile(fileext = ".json")
#' report(coded, path)
#'
#' # Usually run in another session, or by another person. With `model`, reproduce() does not
#' # search for the model's file.
#' reproduce(path, model = model, n_seq_max = 2)
reproduce <- function(
  path,
  model = NULL,
  data = NULL,
  text = NULL,
  n_seq_max = NULL,
  n_threads = NULL,
  progress = interactive()
) {
  path <- py_path(path)
  result <- call_python(
    "reproduce",
    py_arguments(
      "n_seq_max",
      "n_threads",
      path = path,
      model = model_for_reproduce(model),
      data = texts_for_reproduce(data, text),
      text = if (!is.null(data)) "text"
    ),
    progress,
    ended = "Interrupted: not all texts were coded again."
  )
  keeping(
    result,
    document_event(
      "reproduce",
      report = log_path(path),
      result[c("same", "n", "n_same", "n_same_labels")]
    )
  )
  result
}

model_for_reproduce <- function(model) {
  if (is.null(model)) {
    return(NULL)
  }
  if (inherits(model, c("llamaherd_context", "llamaherd_model"))) {
    return(as_python(model, "model"))
  }
  if (!rlang::is_string(model)) {
    must <- "a path, a <llamaherd_model> or a <llamaherd_context>"
    abort_argument("model", must, model)
  }
  expand_path(model)
}

texts_for_reproduce <- function(data, text) {
  if (is.null(data)) {
    return(NULL)
  }
  check_frame(data)
  if (is.null(text)) {
    text <- attr(data, "llamaherd")$text %||% "text"
  }
  text <- check_string(text)
  if (!text %in% names(data)) {
    must <- paste("the name of a column, of which there are", toString(names(data)))
    abort_argument("text", must, text)
  }
  tagged("frame", content = list(text = text_list(as.character(data[[text]]))))
}
