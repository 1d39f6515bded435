#' Probabilities of labels
#'
#' @description
#' Computes, for each prompt, the probability that the model continues the prompt with each label.
#' No text is generated: each prompt is read once, and labels of one token add no cost.
#'
#' @section How probabilities are computed:
#' With \eqn{t_1 \ldots t_m} the tokens of a label after the prompt (prompt and label are tokenized
#' together), the log-probability of the label is
#'
#' \deqn{\log P(label) = \sum_i \log P(t_i | prompt, t_1 \ldots t_{i-1}) + \log P(end)}
#'
#' where \eqn{P(end)} is 1 minus the probabilities of the tokens with which longer labels continue
#' this label. If no other label continues this label, \eqn{P(end)} is 1. The probability of "Sport"
#' therefore does not include the probability of "Sport and games". `normalize` determines which
#' values are compared and scaled to sum to 1:
#'
#' * `"sum"`: \eqn{\log P(label)}. Labels with more tokens have lower values.
#' * `"token"`, `"byte"`: the log-probability divided by the number of tokens, or bytes, of the
#'   label.
#' * `"pmi"`: the log-probability minus the log-probability of the label after `pmi_prompt`. The
#'   difference measures how much the text increases the probability of the label.
#'
#' @section Probabilities after thinking:
#' With `chat = TRUE` and `thinking = 256` the model first writes a thought, and the labels are
#' scored after its end. A thought mostly settles on an answer, so the probabilities after a single
#' thought are near 0 or 1: they show that the model follows its thought, not that the thought is
#' right. `n_thoughts = 5` draws five thoughts per prompt; the probabilities are the mean over these
#' thoughts, and the column `between` shows how much the probability differs between thoughts.
#' `vignette("thinking", "llamaherd")` has an example. `normalize = "pmi"` and contextual
#' calibrations cannot be combined with thoughts.
#'
#' @inheritParams generate_parallel
#' @param labels Possible continuations: a character vector, or a factor, logical values or numbers
#'   as in [codebook()]. If `labels` has names, the result uses the names:
#'   `c(pos = "positive", neg = "negative")`. Probabilities of labels with the same name are added.
#' @param normalize How labels of different lengths are compared: `"sum"`, `"token"`, `"byte"` or
#'   `"pmi"`; see below.
#' @param pmi_prompt Prompt without the text to classify, for `normalize = "pmi"`. With `""`, the
#'   value that `"pmi"` subtracts is the log-probability of the label at the beginning of a text.
#' @param space Whether to put a space between prompt and label. `"auto"` adds a space unless the
#'   prompt ends with white space, the label begins with white space, or `chat` is TRUE.
#' @param n_thoughts Number of thoughts per prompt before the labels are scored. The probabilities
#'   are the mean over all thoughts. Several thoughts are drawn at temperature 0.6 with `top_p =
#'   0.95`; a single thought consists of the most likely tokens. Needs `thinking`.
#' @param seed Seed of the random numbers of thoughts; ignored unless `n_thoughts` is above 1.
#' @returns A `llamaherd_table`: a data frame with one row per prompt, in the same order, NA where a
#'   prompt failed. In [dplyr::mutate()] the columns of the table become columns of the data.
#'
#'   * `label`: the most probable label, a factor with all labels as levels.
#'   * `prob`: the probability of the most probable label; `margin`: the difference between `prob`
#'     and the probability of the second most probable label.
#'   * `entropy`: entropy of the probabilities in nats: 0 if one label has probability 1, `log(k)`
#'     if k labels are equally probable.
#'   * `coverage`: total probability of all labels before scaling. A small value means that the
#'     model would mostly continue the prompt with other texts.
#'   * `p_<label>`: the probability of each label.
#'   * With several thoughts, `between`: standard deviation of the label's probability over the
#'     thoughts of the prompt, before a calibration.
#'   * With thoughts, `thinking`, the text of the first thought; `n_thinking_tokens`, the number of
#'     tokens of all thoughts; and `thinking_complete`, FALSE if one of the thoughts used up its
#'     budget.
#'
#'   A median `coverage` below 0.05 gives a warning of class `llamaherd_warning_coverage` that names
#'   the likely cause.
#'
#'   Attributes:
#'
#'   * `errors`: the reason why a prompt failed; NA for all others.
#'   * `finish_reason`: `"stop"`, `"cancelled"` or `"error"`.
#'   * `stats`: statistics of the call.
#'   * `timing`: as in [generate_parallel()], for `plot(type = "time")`.
#'   * `logprobs`: a matrix of \eqn{\log P(label)} with one row per prompt and one column per label.
#'   * `between`, with several thoughts: a matrix of standard deviations with the same rows and
#'     columns as `logprobs`.
#'   * `notes`: the text of the warning on coverage.
#' @seealso [calibrate_batch()] to remove a model's preferences, [score_parallel()], and
#'   [generate_parallel()] with `choices`, which generates a label.
#' @concept zero-shot classification
#' @export
#' @examplesIf !is.null(llamaherd_example_model())
#' model <- model_load(llamaherd_example_model())
#' context <- context_create(model)
#' texts <- c("The keeper saved two penalties.", "Shares of the bank fell by nine percent.")
#' prompts <- paste0("Text: ", texts, "\nTopic:")
#' classify_parallel(context, prompts, c("Sports", "Business"))
#'
#' # In a data frame, with names for the labels:
#' data <- data.frame(texts)
#' words <- c(good = " great", bad = " awful")
#' cbind(data, classify_parallel(context, paste(texts, "It is"), words))
#' close(model)
classify_parallel <- function(
  context,
  prompts,
  labels,
  normalize = "sum",
  pmi_prompt = "",
  space = "auto",
  progress = interactive(),
  verbosity = 0L,
  parse_special = "auto",
  on_error = c("continue", "return", "stop"),
  journal = NULL,
  chat = FALSE,
  system = NULL,
  thinking = NULL,
  variables = NULL,
  template = NULL,
  prefix = NULL,
  merge_system = FALSE,
  n_thoughts = 1L,
  seed = 1234L
) {
  env <- rlang::current_env()
  check_given(
    labels,
    "The answers to choose from, such as c(\"positive\", \"negative\")."
  )
  object <- check_context(context)
  prompts <- chat_or_prompts(prompts, "prompts", env)
  options <- c(
    class_labels(labels),
    py_arguments("normalize", "pmi_prompt", "space", "n_thoughts", "seed"),
    task_options(prompts, env)
  )
  result <- run_task("classify", task_table, object, prompts, options, env)
  drawn <- if (n_thoughts > 1) c("n_thoughts", "seed")
  settings <- options[c("labels", "normalize", drawn)]
  keeping(result, {
    warn_coverage(result, verbosity)
    document_answers(
      "classify_parallel",
      context,
      prompts,
      result,
      result$label,
      settings
    )
  })
  result
}

# Returns a list of the texts of the labels, which the model reads, and of their names in the
# result.
class_labels <- function(x, ...) {
  x <- label_set(x)
  if (!is.character(x)) {
    hint <- if (is.atomic(x) && !is.null(x)) "as.character() makes labels of values."
    abort_argument("labels", "a character vector", x, hint = hint)
  }
  readings <- check_text(x, "labels")
  names <- as_utf8(rlang::names2(x))
  names <- ifelse(is.na(names) | nzchar(names), names, readings)
  list(labels = as_py_list(readings), names = as_py_list(names))
}

# Returns the options of all tasks except generation.
task_options <- function(prompts, env) {
  c(py_arguments("parse_special", "on_error", "journal", env = env), prompts$options)
}

run_task <- function(task, make, object, prompts, options, env) {
  start <- c("model_start", task)
  result <- run_call(start, make, object, prompts, options, env$verbosity, env$progress)
  keeping(result, tell_failures(result, options$on_error, env$verbosity))
  result
}

# Adds what only R knows of the prompts to the table of a task.
task_table <- function(table, prompts, ...) {
  attr(table, "errors") <- errors_of(table, prompts)
  attr(table, "row.names") <- row_names(prompts$names, nrow(table))
  table
}

# Returns for each row the value in the column of its label; NULL if `values` is NULL.
of_labels <- function(values, labels) {
  if (!is.null(values)) values[cbind(seq_along(labels), as.integer(labels))]
}

# Warns if the coverage is low: the probabilities of labels mean little if the model would continue
# the prompt with other texts.
warn_coverage <- function(result, verbosity) {
  for (note in if (verbosity >= 0) attr(result, "notes")) {
    warn_text(paste0(note, "."), "coverage")
  }
}

numbers_of <- function(values) {
  values <- as.double(unlist(values))
  values[is.nan(values)] <- NA
  values
}
