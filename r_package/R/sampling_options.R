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
#' @param typical_p Cumulative probability of the locally typical tokens to draw from
#'   ([arXiv 2202.00666](https://arxiv.org/abs/2202.00666)). 1 draws from all tokens.
#' @param top_n_sigma Only tokens are drawn whose logit is at most this number of standard
#'   deviations below the largest logit. 0 or less draws from all tokens.
#' @param penalty_freq Frequency penalty, subtracted from the logit of a token once per occurrence
#'   among the last `repeat_last_n` tokens.
#' @param penalty_present Presence penalty, subtracted once from the logit of each token that
#'   occurs among the last `repeat_last_n` tokens.
#' @param xtc_probability Probability that XTC removes the most likely tokens: all tokens with at
#'   least the probability `xtc_threshold`, except the least likely of these tokens.
#' @param xtc_threshold Minimum probability of a token that XTC removes.
#' @param dry_multiplier Strength of the DRY repetition penalty. 0 turns it off.
#' @param dry_base Base of the growth of the DRY penalty per repeated token.
#' @param dry_allowed_length Number of tokens that may be repeated without DRY penalty.
#' @param dry_penalty_last_n Number of last tokens that DRY considers. 0 considers no tokens, -1 all
#'   tokens.
#' @param dry_breakers Texts that end a sequence of repeated tokens for DRY.
#' @param mirostat Version of Mirostat, 1 or 2, which replaces the filters
#'   ([arXiv 2007.14966](https://arxiv.org/abs/2007.14966)). 0 turns it off.
#' @param mirostat_tau Target surprise of Mirostat.
#' @param mirostat_eta Learning rate of Mirostat.
#' @param logit_bias Numbers to add to the logits of tokens: a numeric vector with token ids as
#'   names, such as ``c(`42` = -Inf)`` to forbid token 42. NULL adds nothing.
#' @param min_tokens Minimum number of tokens of an answer. Before an answer has this number of
#'   tokens, no token that ends the answer is drawn, and a stop text within these tokens does not
#'   end the answer. The value must not exceed `max_tokens`, and `min_tokens` cannot be combined
#'   with `schema`, `regex`, `grammar` or `choices`. 0 turns it off.
#' @param stop_token_ids Tokens that end an answer and are not part of it: token ids. These tokens
#'   also end an answer with `ignore_eos = TRUE`. With NULL, only the model's end tokens end an
#'   answer.
#' @returns A `llamaherd_sampling`: a list of the settings that were given. Numeric settings have
#'   one value, or one for each prompt of the call.
#' @seealso [generate_parallel()], [tokenize()] for token ids
#' @export
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
sampling_options <- function(
  ...,
  typical_p = 1,
  top_n_sigma = -1,
  penalty_freq = 0,
  penalty_present = 0,
  xtc_probability = 0,
  xtc_threshold = 0.1,
  dry_multiplier = 0,
  dry_base = 1.75,
  dry_allowed_length = 2L,
  dry_penalty_last_n = -1L,
  dry_breakers = c("\n", ":", "\"", "*"),
  mirostat = 0L,
  mirostat_tau = 5,
  mirostat_eta = 0.1,
  logit_bias = NULL,
  min_tokens = 0L,
  stop_token_ids = NULL
) {
  error_call <- rlang::current_env()
  check_dots(list(...), character())
  given <- as.character(intersect(names(further_kinds), names(match.call())))
  values <- mget(given, error_call)
  values <- values[!vapply(values, is.null, NA)]
  for (name in names(values)) {
    n <- max(length(values[[name]]), 1L) # the number of prompts is not known yet
    check_sampling(values[[name]], further_kinds[[name]], name, n, error_call)
  }
  structure(values, class = "llamaherd_sampling")
}

#' @export
print.llamaherd_sampling <- function(x, ...) {
  cat("<llamaherd_sampling>\n")
  shown <- vapply(unclass(x), \(value) shorten(deparse1(value), 60L), "")
  cat(sprintf("%s = %s\n", names(shown), shown), sep = "")
  invisible(x)
}

# Combines the settings of the argument `sampling` and of `...`. A setting that occurs in both
# causes an error.
further_settings <- function(sampling, dots, error_call) {
  check_dots(dots, names(further_kinds), error_call)
  if (!is.null(sampling) && !inherits(sampling, "llamaherd_sampling")) {
    hint <- "Give this argument by name: generate_parallel(sampling = sampling_options(...))."
    must <- "made by sampling_options(), or NULL"
    abort_argument("sampling", must, sampling, error_call, hint)
  }
  twice <- intersect(names(sampling), names(dots))
  if (length(twice) > 0) {
    abort(
      "{.arg {twice[[1]]}} is given twice: in {.arg sampling} and by itself.",
      "argument",
      error_call
    )
  }
  c(unclass(sampling), dots)
}
