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
#' @concept loop of single prompts
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
  env <- rlang::current_env()
  check_given(prompt)
  object <- check_context(context)
  if (is.numeric(prompt) && length(prompt) > 0) {
    check_tokens(prompt, "prompt")
    prompt <- list(prompt)
  } else if (isTRUE(chat) && is_conversation(prompt)) {
    prompt <- list(prompt)
  } else if (!is.character(prompt) || length(prompt) != 1 || is.na(prompt)) {
    hint <- if (length(prompt) > 1) {
      "generate_parallel() answers several."
    } else {
      prompts_hint(prompt)
    }
    abort_argument("prompt", "a string or token ids", prompt, hint = hint)
  }
  prompts <- chat_or_prompts(prompt, "prompt", env)
  run_generation("generate", object, prompts, env, list(...), list(on_error = "stop"))
}

#' Rarely used sampling settings
#'
#' Collects the settings of llama.cpp's samplers that most calls do not need, for the argument
#' `sampling` of [generate_parallel()] and [generate()]. The usual settings, such as
#' `temperature`, `top_p` and `seed`, are arguments of the two functions.
#'
#' Samplers are applied in llama.cpp's order: `logit_bias`, penalties, DRY, `top_n_sigma`, `top_k`,
#' `typical_p`, `top_p`, `min_p`, XTC, `temperature`. By default, all settings of
#' `sampling_options()` are off. Most samplers select the tokens from which the next token is drawn;
#' with `temperature = 0` the most likely token after `logit_bias` and penalties is used.
#'
#' You can also pass all settings directly, by name, to [generate_parallel()], [generate()] and
#' [quick_llama()].
#'
#' @param ... Must be empty: all settings must be named.
#' @returns A `llamaherd_sampling`: a list of the settings that were given. Numeric settings have
#'   one value, or one for each prompt of the call.
#' @seealso [generate_parallel()], [tokenize()] for token ids
#' @name sampling_options
#' @examples
#' sampling_options(typical_p = 0.9, dry_multiplier = 0.8)
#' @examplesIf !is.null(llamaherd_example_model())
#' model <- model_load(llamaherd_example_model())
#' context <- context_create(model)
#' generate_parallel(
#'   context,
#'   c("Once upon a time", "The sea is"),
#'   temperature = 0.8,
#'   sampling = sampling_options(penalty_present = 0.5)
#' )
#' close(model)
NULL

# Returns the settings that the call of sampling_options() gave. The call that uses them checks
# them.
given_settings <- function(dots, call, env) {
  check_dots(dots)
  names <- as.character(intersect(names(further_kinds), names(call)))
  values <- mget(names, env)
  values <- values[!vapply(values, is.null, NA)]
  structure(values, class = "llamaherd_sampling")
}

#' @export
print.llamaherd_sampling <- function(x, ...) {
  cat("<llamaherd_sampling>\n")
  lines <- vapply(unclass(x), \(value) shorten(deparse1(value), 60L), "")
  cat(sprintf("%s = %s\n", names(lines), lines), sep = "")
  invisible(x)
}

# Combines the settings of the argument `sampling` and of `...`. A setting that occurs in both
# causes an error.
further_settings <- function(sampling, dots) {
  check_dots(dots, names(further_kinds))
  if (!is.null(sampling) && !inherits(sampling, "llamaherd_sampling")) {
    hint <- "Give this argument by name: generate_parallel(sampling = sampling_options(...))."
    must <- "made by sampling_options(), or NULL"
    abort_argument("sampling", must, sampling, hint = hint)
  }
  twice <- intersect(names(sampling), names(dots))
  if (length(twice) > 0) {
    abort("{.arg {twice[[1]]}} is given twice: in {.arg sampling} and by itself.")
  }
  c(unclass(sampling), dots)
}
