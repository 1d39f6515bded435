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
  check_dots(dots, character(), env)
  given <- as.character(intersect(names(further_kinds), names(call)))
  values <- mget(given, env)
  values <- values[!vapply(values, is.null, NA)]
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
