#' Tell how labels came about, in one page
#'
#' Writes a page that needs no other file, no network and no script: the codebook, the exact
#' prompts, the model's file with its SHA-256, settings, versions, machine, tables, plots, and texts
#' where model and people disagree. All of it is in the page as JSON, too, which [reproduce()] runs
#' again.
#'
#' @param x What [annotate_texts()] returned; rows may have been left out or sorted. A data frame
#'   that no longer knows how it came about, as after a join or from a CSV file, gets that back
#'   by [coded_restore()].
#' @param path Where to write: `".html"` for the page, `".json"` for the JSON alone.
#' @param validation What [validate()] returned.
#' @param estimates What [estimate()] returned.
#' @param robustness What [robustness()] returned; its first variant must be how the labels of `x`
#'   were made, as `robustness(x, ...)` has it.
#'
#'   All three must come from the texts and labels of `x`: results of other labels, such as those
#'   before a calibration, of other data, or of an earlier version are an error.
#' @param title Of the page.
#' @param texts Whether texts are in it. FALSE for texts that must not be shared: then there are
#'   only their hashes, and [reproduce()] has to be given the data. The codebook and its examples
#'   are in it all the same. Who has a short text in mind can tell by its hash whether it is there.
#' @param n_examples Most texts that the page shows.
#' @returns The path, invisibly. For plots in the page the Python package matplotlib is needed,
#'   which [install_llamaherd()] installs.
#' @seealso [reproduce()]
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
  n_examples = 20L
) {
  error_call <- rlang::current_env()
  check_coded(x, error_call)
  check_class(validation, "llamaherd_validation", "validation", error_call)
  check_class(estimates, "llamaherd_estimates", "estimates", error_call)
  check_class(robustness, "llamaherd_robustness", "robustness", error_call)
  path <- path.expand(check_string(path))
  if (!dir.exists(dirname(path))) {
    abort_argument("path", "a file in a folder that exists", path, error_call)
  }
  options <- list(
    title = check_string(title, null = TRUE),
    texts = check_flag(texts),
    n_examples = check_whole(n_examples, min = 0)
  )
  written <- py_call(
    "report",
    coded_for_report(x, error_call),
    path,
    list(
      validation = validation$json,
      estimates = if (!is.null(estimates)) estimates_for_report(estimates),
      robustness = if (!is.null(robustness)) robustness_for_report(robustness)
    ),
    options,
    error_call = error_call
  )
  document_event("report", \() {
    list(path = log_path(written), sha256 = py_call("file_sha256", written))
  })
  invisible(written)
}

check_class <- function(x, class, arg, error_call, null = TRUE) {
  if (!(null && is.null(x)) && !inherits(x, class)) {
    abort_argument(arg, sprintf("a <%s>", class), x, error_call)
  }
}

check_coded <- function(x, error_call) {
  if (!is.data.frame(x) || inherits(x, "llamaherd_coded")) {
    return(check_class(x, "llamaherd_coded", "x", error_call, null = FALSE))
  }
  abort(
    c(
      "{.arg x} is a data frame that does not know how its labels came about.",
      x = "A join with it on the right, {.fn cbind}, CSV files, rows of several runs and edited
           labels keep the columns alone.",
      i = "{.code coded_restore(x, coded)} gives the rest back, from what
           {.fn annotate_texts} returned. Of several runs report each by itself."
    ),
    "argument",
    error_call
  )
}

coded_for_report <- function(x, error_call) {
  coding <- attr(x, "llamaherd")
  if (!isTRUE(coding$text %in% names(x))) {
    abort(
      c(
        "{.arg x} has no column with the texts that were coded.",
        i = if (is.na(coding$text)) {
          "Texts of an expression are in a column of their own, unless {.arg columns} of
           {.fn annotate_texts} leaves it out."
        } else {
          "It is called {.field {coding$text}}: leave it in."
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
  error <- unname(coding$columns["error"])
  errors <- if (isTRUE(error %in% names(x))) x[[error]] else rep(NA_character_, n)
  list(
    text = coding$text,
    texts = text_list(as.character(x[[coding$text]])),
    labels = text_list(labels_for_report(x, coding, error_call)),
    names = as_py_list(coding$names),
    probs = if (has_probs) rows_of(values),
    errors = text_list(as.character(errors)),
    run = coding$run_json,
    stats = stats_for_report(coding$stats)
  )
}

# Of a data frame reticulate would make one of pandas.
stats_for_report <- function(stats) {
  stats <- unclass(stats)
  if (!is.null(stats$actors)) {
    stats$actors <- lapply(stats$actors, as_py_list)
  }
  stats
}

labels_for_report <- function(x, coding, error_call) {
  if (identical(coding$codebook$type, "fields")) {
    if (length(coding$answers) == nrow(x)) {
      return(coding$answers)
    }
  } else if (isTRUE(coding$label %in% names(x))) {
    return(as.character(x[[coding$label]]))
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
    grouped_by = as_py_list(x$grouped_by)
  )
}

# The estimates of all variants in place of those of the first.
variants_for_report <- function(x) {
  all <- x$fit
  all$rows <- x$estimates
  all$notes <- x$notes
  estimates_for_report(all)
}

robustness_for_report <- function(x) {
  shares <- as.matrix(x$summary[-(1:2)])
  list(
    variants = as_py_list(x$summary$variant),
    names = as_py_list(x$ranges$label),
    n_texts = nrow(x$labels),
    rows = as_py_list(x$labels$row - 1L),
    source = x$source,
    estimates = if (!is.null(x$estimates)) variants_for_report(x),
    flips = as_py_numbers(x$summary$flips),
    pairwise = rows_of(x$pairwise),
    agreement = x$agreement,
    alpha = x$alpha,
    shares = rows_of(unname(shares)),
    runs = as_py_list(x$runs)
  )
}
