#' Messages to a prompt, whatever the model
#'
#' [apply_chat_template()] writes a conversation with the template that a model brings along,
#' and `generate_parallel(chat = TRUE)` does that on its way. These are for what it does not
#' cover: `smart_chat_template()` writes conversations for Gemma models whose file has no
#' template, or one that refuses system messages, in Gemma's form.
#' `apply_gemma_chat_template()` writes that form, without a model.
#'
#' @inheritParams apply_chat_template
#' @param messages A list of messages `list(role = "user", content = "...")`, or a data frame
#'   with the columns `role` and `content`.
#' @returns A string. In Gemma's form a system message stands before what the user says first.
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
