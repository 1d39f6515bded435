#' Messages to a prompt
#'
#' Writes a conversation in the form that the model was trained on, with the Jinja template
#' that it brings along. What stands in a message stays text: if a document has the text of
#' one of the model's special tokens in it, such as `<|im_end|>`, the prompt marks it (with
#' the characters U+FDD0 and U+FDD1), and [generate_parallel()] takes it as plain text.
#'
#' @param model A `llamaherd_model` from [model_load()].
#' @param messages A list of messages `list(role = "user", content = "...")`, or a data
#'   frame with the columns `role` and `content`, one message per row.
#' @param template Text of another Jinja template. NULL takes the model's own.
#' @param add_assistant TRUE ends the prompt where the assistant's answer begins.
#' @param variables A named list of further variables for the template, for example
#'   `list(enable_thinking = FALSE)`.
#' @returns A string, to be used as a prompt.
#' @export
#' @examples
#' \dontrun{
#' texts <- c("The match ended 3:1.", "Shares fell by two percent.")
#' prompts <- vapply(
#'   texts,
#'   \(text) apply_chat_template(model, list(
#'     list(role = "system", content = "Answer with one word: Sports or Business."),
#'     list(role = "user", content = text)
#'   )),
#'   character(1)
#' )
#' generate_parallel(context, prompts, max_tokens = 5)
#' }
apply_chat_template <- function(
  model,
  messages,
  template = NULL,
  add_assistant = TRUE,
  variables = list()
) {
  object <- check_model(model)
  messages <- check_messages(messages)
  template <- check_string(template, null = TRUE)
  add_assistant <- check_flag(add_assistant)
  if (
    !is.list(variables) ||
      (length(variables) > 0 && !rlang::is_named(variables))
  ) {
    abort_argument("variables", "a named list", variables, rlang::current_env())
  }
  py_call(
    "apply_chat_template",
    object,
    messages,
    template,
    add_assistant,
    variables
  )
}

check_messages <- function(messages, error_call = rlang::caller_env()) {
  if (is.data.frame(messages)) {
    messages <- lapply(seq_len(nrow(messages)), \(row) as.list(messages[row, ]))
  }
  if (!is.list(messages) || length(messages) == 0) {
    must <- "a list of messages like list(role = \"user\", content = \"...\")"
    hint <- if (is.list(messages)) "It is empty."
    abort_argument("messages", must, messages, error_call, hint)
  }
  lapply(seq_along(messages), \(i) {
    message <- messages[[i]]
    if (!is.list(message) || !all(c("role", "content") %in% names(message))) {
      must <- "a list with the fields role and content"
      abort_argument(sprintf("messages[[%d]]", i), must, message, error_call)
    }
    field <- function(name) {
      value <- message[[name]]
      if (is.factor(value)) {
        value <- as.character(value)
      }
      check_string(
        value,
        sprintf("messages[[%d]]$%s", i, name),
        error_call = error_call
      )
    }
    list(role = field("role"), content = field("content"))
  })
}
