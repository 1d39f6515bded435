#' The probability of each label
#'
#' @description
#' For each prompt the probability that the model gives to each label as what comes next. No
#' text is generated: every prompt is read once, and labels of one token cost nothing more.
#'
#' @section What is computed:
#' With \eqn{t_1 \ldots t_m} the tokens of a label after those of the prompt (both are cut into
#' tokens together), its log-probability is
#'
#' \deqn{\log P(label) = \sum_i \log P(t_i | prompt, t_1 \ldots t_{i-1}) + \log P(end)}
#'
#' where \eqn{P(end)} is 1 less the probabilities of the tokens by which longer labels go on from
#' this one, so 1 where none does. Thus "Sport" is not the likelier for being how "Sport and games"
#' begins. `normalize` says what of that is compared, and made to sum to 1:
#'
#' * `"sum"`: \eqn{\log P(label)}. Labels of more tokens have less.
#' * `"token"`, `"byte"`: that divided by the number of the label's tokens, or bytes.
#' * `"pmi"`: that less \eqn{\log P(label)} after `pmi_prompt`, so how much the text speaks for it.
#'
#' @inheritParams generate_parallel
#' @param labels Character vector or factor with what the model may answer. Names, where there
#'   are any, are what the result has: `c(pos = "positive", neg = "negative")`; those of one name
#'   are added up.
#' @param normalize How labels of different lengths are compared; see below.
#' @param pmi_prompt For `normalize = "pmi"`: the prompt without a text to be judged. `""` stands
#'   for the start of a text.
#' @param space Whether a space comes between prompt and label. `"auto"`: unless one of them has
#'   white space there, or with `chat`.
#' @returns A `llamaherd_table`: a data frame with one row for each prompt, in their order, NA where
#'   a prompt failed. In [dplyr::mutate()] it becomes columns of the data.
#'
#'   * `label`: the most likely label, a factor with all of them as levels.
#'   * `prob`: its probability, and `margin`, how far that is above the second.
#'   * `entropy`: of the probabilities, in nats: 0 if one label has all of it, `log(k)` if k labels
#'     have the same.
#'   * `coverage`: the probability of all labels together, before it is made 1. If it is small, the
#'     model wanted to say something else.
#'   * `p_<label>`: the probability of each label.
#'
#'   Its attributes are `errors`, the reason why a prompt failed, NA if it did not;
#'   `finish_reason`, `"stop"`, `"cancelled"` or `"error"`; `stats`; `timing`, as of
#'   [generate_parallel()], which `plot(type = "time")` shows; and `logprobs`, a matrix of
#'   \eqn{\log P(label)} with a row for each prompt and a column for each label.
#' @seealso [calibrate_batch()] against a model's preferences, [score_parallel()], and
#'   [generate_parallel()] with `choices`, which writes a label instead.
#' @export
#' @examplesIf !is.null(llamaherd_example_model())
#' model <- model_load(llamaherd_example_model())
#' context <- context_create(model)
#' texts <- c("The keeper saved two penalties.", "Shares of the bank fell by nine percent.")
#' prompts <- paste0("Text: ", texts, "\nTopic:")
#' classify_parallel(context, prompts, c("Sports", "Business"))
#'
#' # In a data frame, with words of your own for the labels:
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
  system = NULL
) {
  error_call <- rlang::current_env()
  check_given(
    labels,
    "The answers to choose from, such as c(\"positive\", \"negative\")."
  )
  object <- check_context(context)
  prompts <- chat_or_prompts(prompts, "prompts", error_call)
  options <- c(
    class_labels(labels, error_call),
    normalize = check_choice(normalize, c("sum", "token", "byte", "pmi")),
    pmi_prompt = check_string(pmi_prompt),
    space = check_auto_flag(space),
    task_options(prompts, error_call)
  )
  task <- new_task("classify_start", "classify_result", new_classes)
  result <- run_task(task, object, prompts, options, error_call)
  settings <- options[c("labels", "normalize")]
  document_answers(
    "classify_parallel",
    context,
    prompts,
    result,
    result$label,
    settings
  )
  result
}

# What the model reads, and what the user gets.
class_labels <- function(x, error_call) {
  if (is.factor(x)) {
    x <- levels(x)
  }
  readings <- check_text(x, "labels", error_call)
  names <- as_utf8(rlang::names2(x))
  names <- ifelse(is.na(names) | nzchar(names), names, readings)
  fits <- length(readings) > 0 && all(nzchar(trimws(readings)))
  if (!fits || anyNA(names) || anyDuplicated(readings)) {
    must <- "texts, at least one, none empty, and no two the same"
    twice <- readings[duplicated(readings)]
    hint <- if (length(twice) > 0) {
      sprintf("%s is there twice.", encodeString(twice[[1]], quote = "\""))
    } else {
      "Such as c(\"positive\", \"negative\")."
    }
    abort_argument("labels", must, x, error_call, hint)
  }
  list(labels = as_py_list(readings), names = as_py_list(names))
}

# Options that all tasks but generating have.
task_options <- function(prompts, env) {
  on_error <- check_choice(env$on_error, c("continue", "return", "stop"), "on_error", env)
  journal <- check_string(env$journal, "journal", null = TRUE, error_call = env)
  options <- list(
    parse_special = check_auto_flag(env$parse_special, "parse_special", env),
    on_error = on_error,
    journal = expand_path(journal)
  )
  c(options, prompts$options)
}

run_task <- function(task, object, prompts, options, env) {
  verbosity <- check_whole(env$verbosity, "verbosity", error_call = env)
  progress <- check_flag(env$progress, "progress", env)
  display <- list(verbosity = verbosity)
  result <- run_call(task, object, prompts, options, display, progress, env)
  tell_failures(result, options$on_error, verbosity, env)
  result
}

new_classes <- function(columns, prompts, display) {
  names <- as_text(columns[["names"]])
  frame <- class_frame(columns, names)
  frame$coverage <- numbers_of(columns[["coverage"]])
  order <- c("label", "prob", "margin", "entropy", "coverage")
  frame <- frame[c(order, setdiff(names(frame), order))]
  logprobs <- matrix_of(columns[["logprobs"]], names)
  task_table(
    new_frame(frame, nrow(logprobs)),
    columns,
    prompts,
    logprobs = logprobs,
    timing = timing_of(columns[["timing"]])
  )
}

# Columns that follow from the probabilities.
class_frame <- function(columns, names) {
  probs <- matrix_of(columns[["probs"]], names)
  each <- lapply(seq_along(names), \(i) unname(probs[, i]))
  c(
    list(
      label = factor(as_text(columns[["labels"]]), levels = names),
      prob = numbers_of(columns[["prob"]]),
      margin = numbers_of(columns[["margin"]]),
      entropy = numbers_of(columns[["entropy"]])
    ),
    stats::setNames(each, paste0("p_", names))
  )
}

# What all tasks but generating return.
task_table <- function(frame, columns, prompts, ...) {
  new_table(
    frame,
    prompts$names,
    errors = errors_of(columns, prompts),
    finish_reason = as_text(columns[["finish_reasons"]]),
    stats = new_stats(columns[["stats"]]),
    ...
  )
}

# NaN where a prompt failed.
matrix_of <- function(rows, names) {
  values <- numbers_of(rows)
  matrix(values, ncol = length(names), byrow = TRUE, dimnames = list(NULL, names))
}

numbers_of <- function(values) {
  values <- as.double(unlist(values))
  values[is.nan(values)] <- NA
  values
}
