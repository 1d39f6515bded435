#' Thinking of a model before its answer
#'
#' @description
#' Some models write a thought before they answer. `thinking()` sets how long such a thought may be,
#' for the argument `thinking` of [generate_parallel()] and other functions with `chat = TRUE`.
#'
#' @section The argument `thinking`:
#' * `NULL`, the default, follows the model's chat template, with at most 1,024 tokens per thought.
#'   Answers with a `schema`, `regex`, `grammar` or `choices`, and probabilities of labels, are
#'   computed without a thought; a message reports this if the model would think.
#' * `FALSE` turns thinking off: by a variable of the chat template, or by an empty thought in the
#'   prompt.
#' * A number is the maximum number of tokens of the thought. When the tokens are used up, `message`
#'   and the end marker of the thought are inserted, and the answer follows. `TRUE` means 1,024
#'   tokens.
#' * `thinking()` also sets `message`, and the start and end markers for templates that do not
#'   define markers.
#'
#' `max_tokens`, `stop`, `logit_bias`, `schema` and `choices` apply only to the answer;
#' `temperature` and the other sampling settings also apply to the thought. Without `chat = TRUE`,
#' setting `thinking` causes an error. A number causes an error if the chat template does not mark
#' thoughts.
#'
#' @param budget Maximum number of tokens of the thought, in addition to `max_tokens`.
#' @param start,end Texts that mark the start and the end of a thought, such as `"<think>"` and
#'   `"</think>"`. NULL uses the markers of the chat template.
#' @param message Text at the end of a thought that used up its budget. NULL uses a short sentence
#'   in English.
#' @returns A `llamaherd_thinking`: a list of the settings that were given.
#' @seealso [generate_parallel()], whose results have the thoughts
#' @concept reasoning
#' @export
#' @examples
#' thinking(256)
#' thinking(64, start = "<reason>", end = "</reason>", message = " So:")
#' @examplesIf !is.null(llamaherd_example_model())
#' # This model was not trained to think, so the call sets a start and an end marker:
#' model <- model_load(llamaherd_example_model())
#' context <- context_create(model)
#' answer <- generate(
#'   context,
#'   "Is a whale a fish?",
#'   chat = TRUE,
#'   thinking = thinking(24, start = "<think>", end = "</think>"),
#'   choices = c("yes", "no")
#' )
#' as.data.frame(answer)[c("text", "thinking", "thinking_complete")]
#' close(model)
thinking <- function(budget = 1024L, start = NULL, end = NULL, message = NULL) {
  values <- list(
    budget = check_whole(budget),
    start = check_string(start, null = TRUE),
    end = check_string(end, null = TRUE),
    message = check_string(message, null = TRUE)
  )
  structure(Filter(Negate(is.null), values), class = "llamaherd_thinking")
}

#' @export
format.llamaherd_thinking <- function(x, ...) {
  texts <- unclass(x)[-1]
  lines <- vapply(texts, \(text) encodeString(shorten(text, 60L), quote = "\""), "")
  c(
    sprintf("<llamaherd_thinking> at most %d tokens", x$budget),
    if (length(lines) > 0) sprintf("%s = %s", names(lines), lines)
  )
}

# Converts the argument for Python; NULL for the default.
check_thinking <- function(x) {
  if (inherits(x, "llamaherd_thinking")) {
    return(unclass(x))
  }
  py_value(x, "thinking")
}

# Names of the arguments for rendering a chat, for functions that render it themselves.
options_of_chat <- c(
  "thinking",
  "variables",
  "template",
  "prefix",
  "merge_system",
  "show_schema"
)

# Returns a date in the form that Python accepts, "2026-01-31"; NULL for NULL.
check_date <- function(x, arg = "date") {
  if (inherits(x, "Date") && length(x) == 1 && is.finite(x)) {
    return(format(x, "%Y-%m-%d"))
  }
  py_value(x, arg)
}

check_variables <- function(x) {
  if (!is.list(x) || (length(x) > 0 && !rlang::is_named(x))) {
    abort_argument("variables", "a named list", x)
  }
  for (name in names(x)) {
    if (is.character(x[[name]])) {
      x[[name]] <- check_text(x[[name]], sprintf("variables$%s", name))
    }
  }
  x
}

# ---- thoughts in results ----------------------------------------------------------------

# Adds columns of thoughts after the fields, with names that no field has.
with_thoughts <- function(frame, thoughts) {
  for (name in names(thoughts)) {
    free <- name
    while (free %in% names(frame)) {
      free <- paste0(".", free)
    }
    frame[[free]] <- thoughts[[name]]
  }
  frame
}
