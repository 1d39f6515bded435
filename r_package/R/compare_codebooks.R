#' Compare codebooks, choose one, and evaluate it once
#'
#' @description
#' `compare_codebooks()` labels the same texts with several candidates and compares the labels with
#' human codes. A candidate is a codebook with different words, label definitions or examples, or a
#' `candidate()` with another model or other settings. `best_codebook()` chooses a candidate and
#' stores its codebook, settings and model. `evaluate_codebook()` measures the chosen candidate on
#' texts that were not used for choosing.
#'
#' @section What is compared:
#' Only the texts of the part `select` are labelled, see [gold_split()], and all candidates label
#' the same texts. Values are weighted by 1 / inclusion probability, so that they describe all
#' texts. If a candidate fails to label a text, this counts as a wrong label; for numbers, it counts
#' as the lowest or the highest number of the scale, whichever differs more from the code. On a tie
#' between coders, the code of the first of the tied coders is used, and a note reports this. For
#' numbers, the code is the mean of the coders' numbers.
#'
#' Differences are paired, text by text. The variance of a difference is computed by linearisation,
#' within the strata of the draw. Intervals allow for skewness, and for one unseen text on which the
#' candidates differ, if few were seen. With `adjust = "bonferroni"` the intervals of all pairs of
#' candidates are simultaneous. The intervals of differences from the best candidate are therefore
#' valid, too, whichever candidate is the best (Edwards and Hsu 1983). If the interval of the
#' difference between a candidate and the best candidate includes 0, the two candidates cannot be
#' distinguished.
#'
#' @section Evaluate once:
#' The value of the best candidate on `select` is too high, because the candidate was chosen by this
#' value. `evaluate_codebook()` unlocks the part `evaluate` and records the time and the chosen
#' candidate. If `gold` is the path of a CSV file, this record is stored in the JSON file
#' next to the CSV file. If `gold` is a sample, the record is in the element `gold` of the
#' result; save this element. If the part was unlocked before, or codes changed since the
#' choice, a warning and the printed result report this. If the model, the codebook or the settings
#' differ from the chosen candidate, you get an error.
#'
#' @param data Data frame from which the sample was drawn; the function checks that its texts equal
#'   the texts of the sample. `NULL` skips this check.
#' @param candidates A named list of codebooks and candidates.
#' @param gold A coded `llamaherd_gold` with a split, see [gold_split()]; or the path of its CSV
#'   file.
#' @param context Context to run in. `compare_codebooks()` uses this context for candidates that do
#'   not set a context.
#' @param text Column of texts. `NULL` uses the column of the sample.
#' @param measure `"accuracy"`, `"balanced_accuracy"`, `"macro_f1"` or `"kappa"`. For labels that
#'   are numbers `"mae"`, the mean absolute difference between the expected values and the means of
#'   the coders' numbers. `NULL` uses `"mae"` for a codebook with `type = "scale"`, and `"accuracy"`
#'   otherwise.
#' @param level Confidence level.
#' @param adjust `"bonferroni"`: intervals of all differences are simultaneous; `"none"`: each
#'   single interval has the confidence level.
#' @param journal Path of a file that stores all answers, so that another comparison computes only
#'   missing answers. `TRUE` creates a file in the working directory.
#' @param progress,verbosity See [annotate_texts()].
#' @param codebook A codebook.
#' @param ... For `candidate()`: arguments of [annotate_texts()], such as `calibrate`, `method`,
#'   `chat` or `temperature`. For `compare_codebooks()`: the same arguments, for all candidates that
#'   do not set them.
#' @param comparison Return value of `compare_codebooks()`.
#' @param prefer `"value"`: the candidate with the best value. `"speed"`: the fastest of the
#'   candidates that cannot be distinguished from the best candidate.
#' @param name Name of the candidate to choose, in place of `prefer`.
#' @param choice Return value of `best_codebook()`.
#' @param coded Return value of [annotate_texts()] with the chosen codebook, settings and model, for
#'   all texts of `evaluate`. The function evaluates these labels and does not run the model.
#' @returns `compare_codebooks()`: a `llamaherd_codebooks`, a list:
#'
#'   * `summary`: a data frame with one row per candidate: `candidate`; the measure with `low` and
#'     `high`; `difference` to the best candidate, with the interval of this difference; `verdict`;
#'     `seconds` per text; `n_failed`. [as.data.frame()] returns it.
#'   * `pairs`: a data frame with one row per pair: `first`, `second`, `difference`, `low`, `high`,
#'     `differ` (the share of texts that exactly one of the two candidates labels correctly), and
#'     `verdict`.
#'   * `best`, `tied`: name of the best candidate, and names of all candidates that may be the best.
#'   * `n`: number of texts; `notes`.
#'
#'   `candidate()`: a `llamaherd_candidate`.
#'
#'   `best_codebook()`: a `llamaherd_choice`, a list with `name`, `hash`, `codebook`, `settings`,
#'   `model`, `measure`, `value` and `tied`. The choice can be stored with [saveRDS()].
#'
#'   `evaluate_codebook()`: a `llamaherd_evaluation`, a list:
#'
#'   * `value`: a data frame of the measure and its interval.
#'   * `measures`: a data frame of all measures, as in [validate()].
#'   * `n`, `n_failed`: number of texts, and number of texts without a label.
#'   * `first`: TRUE if the part `evaluate` was locked before.
#'   * `opened`: a data frame with the records of all calls that unlocked `evaluate`.
#'   * `gold`: the sample with these records; `notes`.
#' @references Edwards, Hsu, *Multiple Comparisons with the Best Treatment*, J. Am. Stat. Assoc. 78,
#'   1983.
#' @seealso [gold_split()], [choose_examples()], [validate()], [robustness()]
#' @concept model selection
#' @export
#' @examplesIf !is.null(llamaherd_example_model())
#' news <- read.csv(system.file("extdata", "headlines.csv", package = "llamaherd"))
#' labels <- c("Sports", "Business", "Science", "Politics")
#' gold <- gold_sample(news, 60, text = text, names = labels, seed = 1)
#' coded <- data.frame(id = gold$ids, code = news$topic[gold$rows])
#' gold <- gold_split(read_gold(coded, gold), 0.2, 0.4, 0.4, seed = 1)
#'
#' model <- model_load(llamaherd_example_model())
#' context <- context_create(model)
#' book <- codebook("Label the topic of each news text.", labels)
#' found <- compare_codebooks(
#'   news,
#'   list(plain = book, batch = candidate(book, calibrate = "batch")),
#'   gold,
#'   context
#' )
#' found
#' if (requireNamespace("ggplot2", quietly = TRUE)) {
#'   plot(found)
#' }
#'
#' choice <- best_codebook(found)
#' evaluate_codebook(choice, gold, context)
compare_codebooks <- function(
  data,
  candidates,
  gold,
  context = NULL,
  ...,
  text = NULL,
  measure = NULL,
  level = 0.95,
  adjust = c("bonferroni", "none"),
  journal = NULL,
  progress = interactive(),
  verbosity = 0L
) {
  check_given(data)
  check_given(candidates)
  tried <- check_candidates(candidates, context)
  check_given(gold)
  text <- if (!is.null(data)) {
    data <- check_data(data)
    one_column(rlang::enquo(text), data, "text")
  }
  text <- text %||% if (!is.null(data)) coded_columns(data)$text
  comparison <- call_python(
    "compare_codebooks",
    py_arguments(
      c("gold", "context", "measure", "level", "adjust", "journal"),
      data = if (!is.null(data)) frame_for_python(data, names(data)[is_sent(data)]),
      candidates = tried,
      text = text,
      settings = settings_given(list(...))
    ),
    progress,
    verbosity
  )
  keeping(comparison, {
    document_event(
      "compare_codebooks",
      n_texts = comparison$n,
      candidates = names(tried),
      measure = comparison$measure,
      values = comparison$summary[[comparison$measure]],
      best = comparison$best
    )
  })
  comparison
}

#' @rdname compare_codebooks
#' @export
candidate <- function(codebook, context = NULL, ...) {
  settings <- list(...)
  checked <- py_arguments("codebook", "context")
  if (length(settings) > 0 && !all(nzchar(rlang::names2(settings)))) {
    abort_argument("...", "named settings of annotate_texts()", settings)
  }
  candidate <- structure(
    list(codebook = codebook, context = context, settings = settings),
    class = "llamaherd_candidate"
  )
  settings <- settings_given(settings)
  call_python("candidate", list(codebook = checked$codebook, settings = settings))
  candidate
}

#' @rdname compare_codebooks
#' @export
best_codebook <- function(comparison, prefer = c("value", "speed"), name = NULL) {
  comparison <- as_python(check_class(comparison, "llamaherd_codebooks"))
  call_python("best_codebook", py_arguments("prefer", "name", comparison = comparison))
}

#' @rdname compare_codebooks
#' @export
evaluate_codebook <- function(
  choice,
  gold,
  context = NULL,
  coded = NULL,
  level = 0.95,
  journal = NULL,
  progress = interactive(),
  verbosity = 0L
) {
  check_class(choice, "llamaherd_choice")
  if (is.null(context) && is.null(coded)) {
    must <- "a context with the chosen model unless `coded` is given"
    abort_argument("context", must, context)
  }
  comparison <- call_python(
    "evaluate_codebook",
    py_arguments(
      c("gold", "context", "coded", "level", "journal"),
      choice = as_python(choice)
    ),
    progress,
    verbosity,
    warns = "evaluate",
    ended = "Interrupted: the part evaluate was not unlocked."
  )
  keeping(comparison, {
    document_event(
      "evaluate_codebook",
      choice = choice$hash,
      n_texts = comparison$n,
      value = comparison$value,
      first = comparison$first
    )
  })
  comparison
}

#' @export
print.llamaherd_candidate <- function(x, ...) {
  settings <- names(x$settings)
  cat(sprintf("<llamaherd_candidate> codebook %s", substr(x$codebook$hash, 1, 8)))
  cat(if (length(settings) > 0) paste0(", ", toString(settings)), "\n", sep = "")
  invisible(x)
}

# Returns the candidates with names, as Python reads them.
check_candidates <- function(x, context) {
  x <- list_of(x, c("llamaherd_codebook", "llamaherd_candidate"), "candidates")
  for (i in which(vapply(x, \(one) is.null(one$context %||% context), NA))) {
    name <- names(x)[[i]]
    must <- sprintf("a context, because candidate \"%s\" has none of its own", name)
    abort_argument("context", must, NULL)
  }
  lapply(x, as_python, "context")
}

# Selects the columns that Python accepts: lists and similar objects cannot be texts or identifiers.
is_sent <- function(data) {
  vapply(data, \(column) is.atomic(column) || is.factor(column), logical(1))
}

# Returns coded texts for Python, which must have their columns of texts and labels.
labels_given <- function(coded, arg = "coded") {
  check_given(coded, arg = arg)
  known <- if (inherits(coded, "llamaherd_coded")) coded_columns(coded)
  if (is.null(known$label) || is.null(known$text)) {
    must <- "the result of annotate_texts(), with its columns of texts and labels"
    abort_argument(arg, must, coded)
  }
  coded_for_python(coded, unclass(coded)[[known$label]])
}
