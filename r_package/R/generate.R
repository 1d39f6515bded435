#' Answer one prompt
#'
#' As [generate_parallel()] for one prompt, but a failure is an error.
#'
#' @inheritParams generate_parallel
#' @param prompt A string, or an integer vector of token ids.
#' @param ... Further sampling settings by name, see [generate_parallel()].
#' @returns A `llamaherd_result` of length 1: a string with the attributes that
#'   [generate_parallel()] describes. NA if Ctrl-C ended it, with a warning.
#' @export
#' @examples
#' \dontrun{
#' generate(context, "The capital of France is", max_tokens = 10)
#' }
generate <- function(
  context,
  prompt,
  max_tokens = 100L,
  top_k = 40L,
  top_p = 1.0,
  temperature = 0.0,
  repeat_last_n = 0L,
  penalty_repeat = 1.0,
  seed = 1234L,
  clean = FALSE,
  hash = TRUE,
  verbosity = 0L,
  min_p = 0.05,
  stop = NULL,
  ignore_eos = FALSE,
  grammar = NULL,
  parse_special = "auto",
  ...
) {
  error_call <- rlang::current_env()
  object <- check_context(context)
  if (is.numeric(prompt) && length(prompt) > 0) {
    check_tokens(prompt, "prompt", error_call)
    prompt <- list(prompt)
  } else if (!is.character(prompt) || length(prompt) != 1 || is.na(prompt)) {
    abort_argument("prompt", "a string or token ids", prompt, error_call)
  }
  prompts <- as_prompts(prompt, "prompt", error_call)
  options <- sampling_options(error_call, list(...), 1L)
  options$on_error <- "continue"
  display <- check_display(error_call)

  run <- run_job(object, prompts, options, FALSE, error_call)
  result <- new_result(run, prompts, display)
  report(result, run$interrupted, "stop", display$verbosity, error_call)
  result
}
