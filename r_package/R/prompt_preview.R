#' Show the prompt for a text
#'
#' Shows the prompt in the form that the model reads, the number of its tokens, and the part that
#' all texts share, which is computed once.
#'
#' @param codebook A codebook from [codebook()].
#' @param text A text.
#' @param model A model or context for counting tokens. With NULL, tokens are not counted.
#' @param chat TRUE formats the prompt with the model's chat template; needs `model`.
#' @returns A `llamaherd_preview`, which prints the prompt: a list with these elements:
#'
#'   * `prompt`: the prompt. With several labels per text there is one prompt per label, and
#'     `prompt` is the first of these prompts.
#'   * `shared`: the beginning of the prompt that all texts share.
#'   * `n_prompts`: number of prompts per text.
#'   * `tokens`, `n_shared`: numbers of tokens of the prompt and of its shared beginning; NULL
#'     without a model.
#' @seealso [codebook()], [annotate_texts()]
#' @export
#' @examplesIf llamaherd::llamaherd_available()
#' prompt_preview(codebook("Good or bad?", c("good", "bad")), "It rains.")
prompt_preview <- function(codebook, text, model = NULL, chat = FALSE) {
  error_call <- rlang::current_env()
  check_codebook(codebook)
  text <- py_value(text)
  chat <- check_flag(chat)
  if (is.null(model)) {
    if (chat) {
      abort(
        "{.code chat = TRUE} needs {.arg model}, whose chat template is used.",
        "argument",
        error_call
      )
    }
    object <- NULL
  } else if (inherits(model, "llamaherd_context")) {
    object <- check_context(model)
  } else {
    object <- check_model(model)
  }
  found <- py_call(
    "codebook_preview",
    codebook$content,
    text,
    object,
    chat,
    error_call = error_call
  )
  tokens <- found[["tokens"]]
  structure(
    list(
      prompt = found[["prompt"]],
      shared = found[["shared"]],
      n_prompts = found[["n_prompts"]],
      tokens = if (!is.null(tokens)) as.integer(unlist(tokens)),
      n_shared = found[["n_shared"]]
    ),
    class = "llamaherd_preview"
  )
}

#' @export
format.llamaherd_preview <- function(x, ...) {
  counts <- if (!is.null(x$tokens)) {
    sprintf(" %d tokens, %d of them shared", length(x$tokens), x$n_shared)
  }
  several <- if (x$n_prompts > 1) {
    sprintf(" one of %d prompts for the text", x$n_prompts)
  }
  head <- paste(c(counts, several), collapse = ",")
  own <- substring(x$prompt, nchar(x$shared) + 1L)
  c(
    paste0("<llamaherd_preview>", head),
    "---- every text",
    x$shared,
    "---- this text",
    own
  )
}
