#' Answer one prompt
#'
#' Answers a single prompt like [generate_parallel()], but signals an error if the prompt fails.
#'
#' @inheritParams generate_parallel
#' @param prompt A string, or an integer vector of token ids; with `chat = TRUE` a string or a list
#'   of messages.
#' @returns A `llamaherd_result` of length 1: a string with the attributes described in
#'   [generate_parallel()], which also describes interrupts. With `schema` a data frame with one
#'   row.
#' @export
#' @examplesIf !is.null(llamaherd_example_model())
#' model <- model_load(llamaherd_example_model())
#' context <- context_create(model)
#' generate(context, "The capital of France is", max_tokens = 10)
#' close(model)
generate <- function(
  context,
  prompt,
  max_tokens = NULL,
  top_k = 40L,
  top_p = 1.0,
  temperature = 0.0,
  repeat_last_n = 64L,
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
  chat = FALSE,
  system = NULL,
  choices = NULL,
  schema = NULL,
  regex = NULL,
  strict = FALSE,
  show_schema = TRUE,
  retries = 2L,
  dotted = FALSE,
  logprobs = NULL,
  sampling = NULL,
  thinking = NULL,
  variables = NULL,
  template = NULL,
  prefix = NULL,
  merge_system = FALSE,
  quote_from = NULL,
  ...
) {
  error_call <- rlang::current_env()
  check_given(prompt)
  object <- check_context(context)
  if (is.numeric(prompt) && length(prompt) > 0) {
    check_tokens(prompt, "prompt", error_call)
    prompt <- list(prompt)
  } else if (isTRUE(chat) && is_conversation(prompt)) {
    prompt <- list(prompt)
  } else if (!is.character(prompt) || length(prompt) != 1 || is.na(prompt)) {
    hint <- if (length(prompt) > 1) {
      "generate_parallel() answers several."
    } else {
      prompts_hint(prompt)
    }
    abort_argument("prompt", "a string or token ids", prompt, error_call, hint)
  }
  prompts <- chat_or_prompts(prompt, "prompt", error_call)
  options <- c(call_options(error_call, list(...), 1L), prompts$options)
  options$on_error <- "continue"
  display <- check_display(error_call)

  task <- generate_task(options, check_flag(dotted), context$model)
  result <- run_call(task, object, prompts, options, display, FALSE, error_call)
  bound <- is.null(schema) && is_bound(grammar, regex, choices, 1L)
  keeping(result, {
    tell_failures(result, "stop", display$verbosity, error_call, bound)
    document_answers(
      "generate",
      context,
      prompts,
      result,
      output_texts(result),
      options$sampling
    )
  })
  result
}
