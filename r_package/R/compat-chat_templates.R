#' Format messages for models without a usable chat template
#'
#' [apply_chat_template()] formats a conversation with the model's own template, and
#' `generate_parallel(chat = TRUE)` formats prompts automatically. `smart_chat_template()` works
#' like `apply_chat_template()`, but uses Gemma's format for Gemma models whose file has no
#' template, or a template that refuses system messages. `apply_gemma_chat_template()` always uses
#' Gemma's format and needs no model.
#'
#' @inheritParams apply_chat_template
#' @param messages A list of messages `list(role = "user", content = "...")`, or a data frame
#'   with the columns `role` and `content`.
#' @returns A string. In Gemma's format, the system message is placed before the first user message.
#' @seealso [apply_chat_template()]
#' @export
#' @examples
#' messages <- list(
#'   list(role = "system", content = "Be brief."),
#'   list(role = "user", content = "Name a river.")
#' )
#' cat(apply_gemma_chat_template(messages))
smart_chat_template <- function(
  model,
  messages,
  template = NULL,
  add_assistant = TRUE
) {
  error_call <- rlang::current_env()
  check_given(messages)
  check_model(model)
  if (!is.null(template)) {
    return(apply_chat_template(model, messages, template, add_assistant))
  }
  rlang::try_fetch(
    apply_chat_template(model, messages, add_assistant = add_assistant),
    llamaherd_error_model = function(cnd) {
      kind <- model_metadata(model)["general.architecture"]
      if (!grepl("^gemma", kind)) {
        rlang::cnd_signal(cnd)
      }
      apply_gemma_chat_template(messages, add_assistant)
    }
  )
}

#' @rdname smart_chat_template
#' @export
apply_gemma_chat_template <- function(messages, add_assistant = TRUE) {
  error_call <- rlang::current_env()
  messages <- check_messages(messages, error_call = error_call)
  add_assistant <- check_flag(add_assistant)
  system <- ""
  turns <- character()
  for (message in messages) {
    text <- trimws(message$content)
    if (message$role == "system") {
      system <- paste0(system, text, "\n\n")
      next
    }
    if (message$role == "user") {
      text <- paste0(system, text)
      system <- ""
    }
    role <- if (message$role == "assistant") "model" else message$role
    turns <- c(turns, paste0("<start_of_turn>", role, "\n", text, "<end_of_turn>\n"))
  }
  if (nzchar(system)) {
    text <- trimws(system)
    turns <- c(turns, paste0("<start_of_turn>user\n", text, "<end_of_turn>\n"))
  }
  paste0(paste(turns, collapse = ""), if (add_assistant) "<start_of_turn>model\n")
}
