#' Remove a model's preference for labels
#'
#' @description
#' Models prefer some labels regardless of the text. A calibration estimates this preference as a
#' prior \eqn{q}: the mean probability of each label over many texts, or over prompts without a
#' text. The calibration divides the probabilities \eqn{p} of a text by the prior and scales the
#' quotients to sum
#' to 1: \eqn{(p_j / q_j) / \sum_i (p_i / q_i)}.
#'
#' * `calibrate_batch()` uses the mean over the texts themselves as the prior ([Zhou et al.
#'   2023](https://arxiv.org/abs/2309.17249)). Batch calibration assumes that labels are about
#'   equally frequent. Fit the calibration once to all texts and store it: a different batch of
#'   texts gives a different calibration.
#' * `calibrate_contextual()` uses the mean over prompts with `"N/A"` or similar in place of the
#'   text ([Zhao et al. 2021](https://arxiv.org/abs/2102.09690)).
#' * `calibrated()` applies a calibration. `classify_calibrated()` computes probabilities, fits the
#'   calibration and applies the calibration.
#'
#' @inheritParams classify_parallel
#' @param x Return value of [classify_parallel()], or a matrix of probabilities with one row per
#'   text and one column per label. For `calibrate_contextual()` the probabilities after prompts
#'   without content.
#' @param calibration Return value of `calibrate_batch()` or `calibrate_contextual()`, possibly
#'   stored with [saveRDS()].
#' @param method `"batch"` fits the calibration to these prompts; `"contextual"` fits it to the
#'   prompts in `content_free`.
#' @param content_free For `method = "contextual"`: prompts with `"N/A"`, `""` or similar in place
#'   of the text.
#' @param ... Further arguments of [classify_parallel()].
#' @returns `calibrate_batch()` and `calibrate_contextual()`: a `llamaherd_calibration`, a list with
#'   `names` (names of the labels), `prior`, `method` and `n` (number of texts). If the calibration
#'   was fitted to a matrix without names, `names` is NULL, and the calibration can be applied to
#'   any labels.
#'
#'   `calibrated()` and `classify_calibrated()`: `x`, or the return value of [classify_parallel()],
#'   with calibrated probabilities. The columns that depend on the probabilities are computed again;
#'   `coverage` and `logprobs` are not changed. The attribute `calibration` contains the
#'   calibration.
#' @seealso [classify_parallel()]
#' @export
#' @examplesIf !is.null(llamaherd_example_model())
#' model <- model_load(llamaherd_example_model())
#' context <- context_create(model)
#' texts <- c("The keeper saved two penalties.", "Shares fell by nine percent.")
#' prompts <- paste0("Text: ", texts, "\nTopic:")
#' labels <- c("Sports", "Business")
#' classes <- classify_parallel(context, prompts, labels)
#' calibration <- calibrate_batch(classes)
#' calibrated(classes, calibration)
#'
#' free <- "Text: N/A\nTopic:"
#' classify_calibrated(context, prompts, labels, "contextual", content_free = free)
#' close(model)
calibrate_batch <- function(x) new_calibration(x, "batch")

#' @rdname calibrate_batch
#' @export
calibrate_contextual <- function(x) {
  new_calibration(x, "contextual")
}

#' @rdname calibrate_batch
#' @export
calibrated <- function(x, calibration) {
  probs <- check_probs(x)
  check_class(calibration, "llamaherd_calibration")
  n <- length(calibration$prior)
  if (n != ncol(probs$values)) {
    must <- sprintf("probabilities of %d labels, as many as the calibration has", n)
    abort_argument("x", must, x)
  }
  names <- probs$names %||% calibration$names %||% as.character(seq_len(n))
  changed <- as.list(plain_frame(apply_calibration(calibration, probs$values, names)))
  if (!is.data.frame(x)) {
    values <- matrix(
      unlist(changed[paste0("p_", names)]),
      nrow(x),
      dimnames = dimnames(x)
    )
    return(structure(values, calibration = calibration))
  }
  changed$coverage <- NULL
  changed$between <- of_labels(attr(x, "between"), changed$label)
  for (name in names(changed)) {
    x[[name]] <- changed[[name]]
  }
  attr(x, "calibration") <- calibration
  x
}

#' @rdname calibrate_batch
#' @export
classify_calibrated <- function(
  context,
  prompts,
  labels,
  method = c("batch", "contextual"),
  content_free = NULL,
  calibration = NULL,
  ...
) {
  check_given(context)
  check_given(prompts)
  check_given(labels)
  method <- check_choice(method, c("batch", "contextual"))
  needs_free <- method == "contextual" && is.null(calibration)
  if (needs_free == is.null(content_free)) {
    abort(
      "{.arg content_free} is needed for {.code method = \"contextual\"}, and only for it."
    )
  }
  if (!is.null(calibration)) {
    check_class(calibration, "llamaherd_calibration")
    # A call without rows only checks, before the model runs, that the calibration has these labels.
    names <- unique(unlist(class_labels(labels)$names))
    none <- matrix(0, 0, length(names))
    apply_calibration(calibration, none, names)
  }
  if (needs_free) {
    thinking <- check_thinking(list(...)$thinking)
    py_call("check_contextual", thinking)
    calibration <- calibrate_contextual(classify_parallel(
      context,
      content_free,
      labels,
      ...
    ))
  }
  classes <- classify_parallel(context, prompts, labels, ...)
  calibrated(classes, calibration %||% calibrate_batch(classes))
}

new_calibration <- function(x, method) {
  check_given(x, arg = "x")
  probs <- check_probs(x)
  arguments <- list(
    probs = rows_of(probs$values),
    names = as_py_list(probs$names),
    method = method
  )
  call_python("calibration_fit", arguments)
}

# Computes the columns of classify_result from probabilities with one row per text.
apply_calibration <- function(calibration, values, names) {
  json <- calibration$json %||% attr(calibration, "json")
  py_call("calibration_apply", json, rows_of(values), as_py_list(names))
}

# Returns probabilities as a matrix with the names of the labels.
check_probs <- function(x) {
  check_given(x, arg = "x")
  if (!is.null(attr(x, "calibration"))) {
    abort("{.arg x} is calibrated already.")
  }
  if (inherits(x, "llamaherd_table") && !is.null(attr(x, "logprobs"))) {
    names <- colnames(attr(x, "logprobs"))
    values <- vapply(unclass(x)[paste0("p_", names)], as.double, double(nrow(x)))
    return(list(values = matrix(values, ncol = length(names)), names = names))
  }
  if (!is.matrix(x) || !is.numeric(x) || ncol(x) == 0) {
    must <- "what classify_parallel() returned, or a matrix of probabilities"
    abort_argument("x", must, x)
  }
  list(values = unname(x), names = colnames(x))
}

# Converts rows for Python, with NaN for NA: R's NA is a special NaN that raises a floating-point
# flag in computations.
rows_of <- function(values) {
  values[is.na(values)] <- NaN
  lapply(seq_len(nrow(values)), \(i) as.list(as.double(values[i, ])))
}
