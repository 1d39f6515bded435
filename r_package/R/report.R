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
  error_call <- rlang::current_env()
  check_coded(x, error_call)
  parts <- parts_for_report(
    validation,
    estimates,
    robustness,
    evaluation,
    error_call
  )
  path <- expand_path(check_string(path))
  if (!dir_exists(dir_name(path))) {
    abort_argument("path", "a file in a folder that exists", path, error_call)
  }
  options <- py_arguments("title", "texts", "n_examples")
  written <- r_path(py_call(
    "report",
    coded_for_report(x, error_call),
    path,
    parts,
    options,
    error_call = error_call
  ))
  document_event("report", \() {
    list(path = log_path(written), sha256 = py_call("file_sha256", written))
  })
  invisible(written)
}

# Returns the other objects of a report, in the form that Python accepts.
parts_for_report <- function(
  validation,
  estimates,
  robustness,
  evaluation,
  error_call
) {
  if (inherits(validation, "llamaherd_span_validation")) {
    hint <- "A report highlights passages, but does not compare them: print() or plot() the result."
    abort_argument("validation", "the result of validate()", validation, error_call, hint)
  }
  check_class(validation, "llamaherd_validation", "validation", error_call)
  check_class(robustness, "llamaherd_robustness", "robustness", error_call)
  check_class(evaluation, "llamaherd_evaluation", "evaluation", error_call)
  list(
    validation = validation$json,
    estimates = several_for_report(estimates, error_call),
    robustness = if (!is.null(robustness)) robustness_for_report(robustness),
    evaluation = if (!is.null(evaluation)) evaluation_for_report(evaluation)
  )
}

# Returns a list with the content of one or several estimates.
several_for_report <- function(estimates, error_call) {
  check_given(estimates, arg = "estimates", error_call = error_call)
  is_list <- is.null(estimates) || rlang::is_bare_list(estimates)
  several <- if (is_list) as.list(estimates) else list(estimates)
  args <- if (is_list) sprintf("estimates[[%d]]", seq_along(several)) else "estimates"
  titles <- rlang::names2(several)
  lapply(seq_along(several), \(i) {
    check_class(several[[i]], "llamaherd_estimates", args[[i]], error_call, null = FALSE)
    c(estimates_for_report(several[[i]]), title = titles[[i]])
  })
}

evaluation_for_report <- function(x) {
  list(
    choice = x$choice$json,
    value = x$value$value,
    low = x$value$low,
    high = x$value$high,
    n = x$n,
    n_failed = x$n_failed,
    n_openings = nrow(x$opened),
    notes = as_py_list(x$notes)
  )
}

check_class <- function(x, class, arg, error_call, null = TRUE) {
  check_given(x, arg = arg, error_call = error_call)
  if (!(null && is.null(x)) && !inherits(x, class)) {
    abort_argument(arg, sprintf("a <%s>", class), x, error_call)
  }
}

check_coded <- function(x, error_call) {
  check_given(x, arg = "x", error_call = error_call)
  if (!is.data.frame(x) || inherits(x, "llamaherd_coded")) {
    return(check_class(x, "llamaherd_coded", "x", error_call, null = FALSE))
  }
  abort(
    c(
      "{.arg x} has no record of how its labels were made.",
      x = "Right joins, CSV files, binding rows of several runs and editing labels drop the record
           and keep the columns.",
      i = "{.code coded_restore(x, coded)} restores the record from the return value of
           {.fn annotate_texts}. Report several runs one by one."
    ),
    "argument",
    error_call
  )
}

coded_for_report <- function(x, error_call) {
  check_coded_rows(x, "x", error_call)
  coding <- attr(x, "llamaherd")
  if (!isTRUE(coding$text %in% names(x))) {
    abort(
      c(
        "{.arg x} has no column with the texts that were coded.",
        i = if (is.na(coding$text)) {
          "Texts of an expression are in a column of their own, unless {.arg columns} of
           {.fn annotate_texts} leaves it out."
        } else {
          "The texts were in the column {.field {coding$text}}: do not remove it."
        }
      ),
      "argument",
      error_call
    )
  }
  n <- nrow(x)
  probs <- unname(coding$probs[coding$names])
  has_probs <- length(probs) > 0 && all(probs %in% names(x))
  values <- if (has_probs) {
    matrix(vapply(probs, \(name) as.double(x[[name]]), double(n)), n)
  }
  raw <- paste0("raw_", c(coding$label, probs))
  is_recalibrated <- has_probs && all(raw %in% names(x))
  error <- unname(coding$columns["error"])
  errors <- if (isTRUE(error %in% names(x))) x[[error]] else rep(NA_character_, n)
  list(
    text = coding$text,
    texts = text_list(value_text(x[[coding$text]])),
    labels = text_list(labels_for_report(x, coding, error_call)),
    names = as_py_list(coding$names),
    probs = if (has_probs) rows_of(values),
    original = if (is_recalibrated) {
      list(
        labels = text_list(value_text(x[[raw[[1]]]])),
        probs = rows_of(do.call(cbind, lapply(raw[-1], \(name) as.double(x[[name]]))))
      )
    },
    errors = text_list(as.character(errors)),
    quotes = quotes_for_report(x, coding),
    run = coding$run_json,
    stats = stats_for_report(coding$stats)
  )
}

# Returns the numbers of the first and last character of the quote that supports each label; NULL
# without `evidence`.
quotes_for_report <- function(x, coding) {
  places <- unname(coding$columns[c("start", "end")])
  is_generated <- isTRUE(coding$codebook$type %in% c("fields", "spans"))
  if (is_generated || anyNA(places) || !all(places %in% names(x))) {
    return(NULL)
  }
  columns <- unclass(x)[places]
  stats::setNames(lapply(columns, as_py_numbers), c("start", "end"))
}

# reticulate would convert a data frame to a pandas data frame.
stats_for_report <- function(stats) {
  stats <- unclass(stats)
  if (!is.null(stats$actors)) {
    stats$actors <- lapply(stats$actors, as_py_list)
  }
  stats
}

labels_for_report <- function(x, coding, error_call) {
  if (isTRUE(coding$codebook$type %in% c("fields", "spans"))) {
    if (length(coding$answers) == nrow(x)) {
      return(coding$answers)
    }
  } else if (isTRUE(coding$label %in% names(x))) {
    return(value_text(x[[coding$label]]))
  }
  abort(
    "{.arg x} no longer has all rows or its column of labels.",
    "argument",
    error_call
  )
}

estimates_for_report <- function(x) {
  columns <- lapply(x$rows, \(column) {
    if (is.character(column)) text_list(column) else as_py_numbers(column)
  })
  list(
    rows = columns,
    model = x$model,
    formula = if (!is.null(x$formula)) deparse1(x$formula),
    level = x$level,
    target = x$target,
    n_texts = x$n_texts,
    n_gold = x$n_gold,
    design = x$design,
    notes = as_py_list(x$notes),
    source = x$source,
    grouped_by = as_py_list(x$grouped_by),
    predictions = x$predictions,
    simultaneous = x$simultaneous,
    agreement = x$agreement,
    is_weighted = x$is_weighted
  )
}

# Replaces the estimates of the first variant by the estimates of all variants.
variants_for_report <- function(x) {
  all <- x$fit
  all$rows <- x$estimates
  all$notes <- x$notes
  estimates_for_report(all)
}

robustness_for_report <- function(x) {
  list(json = x$json, estimates = if (!is.null(x$estimates)) variants_for_report(x))
}
