#' Format messages with a chat template
#'
#' Formats conversations with the model's Jinja template, in the form that the model was trained on.
#' Text in messages remains text: if a document contains the text of a special token, such as
#' `<|im_end|>`, the prompt marks it (with the characters U+FDD0 and U+FDD1), and
#' [generate_parallel()] reads it as plain text.
#'
#' @param model A `llamaherd_model` from [model_load()].
#' @param messages One of: a character vector of user messages, one per prompt, in which NA is
#'   allowed; one conversation; a list of conversations. A conversation is a list of messages
#'   `list(role = "user", content = "...")`, or a data frame with the columns `role` and `content`.
#' @param template Text of another Jinja template. NULL uses the model's own template.
#' @param add_assistant TRUE ends the prompt where the assistant's answer begins.
#' @param variables Named list of further variables for the template, such as
#'   `list(enable_thinking = FALSE)`.
#' @param system Text of a system message before each conversation. NULL adds none.
#' @returns Prompts: a character vector of the same length and order as `messages`, with their
#'   names, and NA where a message is NA; for one conversation a string.
#' @seealso `generate_parallel(chat = TRUE, system = )`, which formats messages itself.
#' @export
#' @examplesIf !is.null(llamaherd_example_model())
#' model <- model_load(llamaherd_example_model())
#' apply_chat_template(model, c("Name a river.", "Name a lake."), system = "Be brief.")
#' apply_chat_template(model, list(
#'   list(role = "user", content = "Name a river."),
#'   list(role = "assistant", content = "The Nile."),
#'   list(role = "user", content = "Another one.")
#' ))
#' close(model)
apply_chat_template <- function(
  model,
  messages,
  template = NULL,
  add_assistant = TRUE,
  variables = list(),
  system = NULL
) {
  check_given(messages)
  object <- check_model(model)
  system <- check_string(system, null = TRUE)
  is_single <- is_conversation(messages)
  prompts <- as_prompts(
    if (is_single) list(messages) else messages,
    "messages",
    if (is_single) {
      \(x, ...) check_messages(x, "messages")
    } else {
      as_conversation
    }
  )
  check_no_problem(prompts, "messages")
  template <- py_value(template)
  add_assistant <- py_value(add_assistant)
  variables <- check_variables(variables)
  is_valid <- is.na(prompts$problems)
  texts <- rep(NA_character_, length(is_valid))
  texts[is_valid] <- as_text(py_call(
    "apply_chat_template",
    object,
    lapply(prompts$values[is_valid], with_system, system),
    template,
    add_assistant,
    variables
  ))
  stats::setNames(texts, if (!is_single) prompts$names)
}

with_system <- function(conversation, system) {
  if (is.character(conversation)) {
    conversation <- list(list(role = "user", content = conversation))
  }
  c(if (!is.null(system)) list(list(role = "system", content = system)), conversation)
}

# Requires text with a valid encoding, because an invalid text would be lost silently. NA remains
# NA.
check_no_problem <- function(prompts, arg) {
  bad <- which(!is.na(prompts$problems) & !prompts$missing)
  if (length(bad) > 0) {
    abort(c(
      "{.code {arg}[[{bad[[1]]}]]} is not valid text in its encoding.",
      i = "Convert it with {.fn iconv}, or declare its {.fn Encoding}."
    ))
  }
}

# Converts one prompt for Python: a user message given as text, or a list of messages.
as_conversation <- function(x, arg) {
  if (is.factor(x)) {
    x <- as.character(x)
  }
  if (is.character(x) && length(x) == 1) {
    return(as_utf8(x))
  }
  if (!is.list(x)) {
    abort_argument(arg, "a string or a list of messages", x)
  }
  check_messages(x, arg)
}

# Returns TRUE for messages. A list may also consist of token ids.
is_messages <- function(prompt) is.list(prompt) && is.list(prompt[1][[1]])

contents <- function(messages) {
  paste(vapply(messages, \(message) message$content, ""), collapse = "\n")
}

# TRUE for one conversation, FALSE for a list of conversations.
is_conversation <- function(x) {
  fields <- c("role", "content")
  all(fields %in% names(x)) ||
    (is.list(x) && (length(x) == 0 || any(vapply(x, \(m) any(fields %in% names(m)), NA))))
}

check_messages <- function(messages, arg = rlang::caller_arg(messages)) {
  check_given(messages, arg = arg)
  if (is.data.frame(messages)) {
    messages <- lapply(seq_len(nrow(messages)), \(row) as.list(messages[row, ]))
  }
  if (!is.list(messages) || length(messages) == 0) {
    must <- "a list of messages like list(role = \"user\", content = \"...\")"
    hint <- if (is.list(messages)) "It is empty."
    abort_argument(arg, must, messages, hint = hint)
  }
  lapply(seq_along(messages), \(i) {
    message <- messages[[i]]
    if (!is.list(message) || !all(c("role", "content") %in% names(message))) {
      must <- "a list with the fields role and content"
      abort_argument(sprintf("%s[[%d]]", arg, i), must, message)
    }
    field <- \(name) {
      where <- sprintf("%s[[%d]]$%s", arg, i, name)
      check_string(message[[name]], where)
    }
    list(role = field("role"), content = field("content"))
  })
}

#' Fix the date in chat templates
#'
#' @description
#' Some chat templates (Llama 3.2, gpt-oss, Granite) write the current date into each prompt. On
#' another day, the same call then sends other prompts, returns other answers, and finds no result
#' in a journal of the first day. `with_chat_date()` runs code with a fixed date.
#'
#' [annotate_texts()] records the date of each call, and uses the recorded date when it continues
#' from a journal. The argument `date` of [annotate_texts()] sets the date for one call.
#'
#' @param date A Date, or a string like `"2026-01-31"`. NULL is the date of the enclosing
#'   `with_chat_date()`, or else today's date, which does not change if the code runs past midnight.
#' @param code Code to run, such as a call of [generate_parallel()].
#' @returns The value of `code`.
#' @seealso [generate_parallel()] with `chat = TRUE`, [apply_chat_template()]
#' @export
#' @examplesIf !is.null(llamaherd_example_model())
#' model <- model_load(llamaherd_example_model())
#' context <- context_create(model)
#' dated <- paste0(
#'   "{% for m in messages %}Today is {{ strftime_now('%d %B %Y') }}. {{ m.content }}\n",
#'   "{% endfor %}Answer:"
#' )
#' with_chat_date("2026-01-31", apply_chat_template(model, "What day is it?", template = dated))
#'
#' # The same call on any other day finds its answers in the journal.
#' journal <- tempfile()
#' ask <- function() {
#'   generate_parallel(context, "What day is it?", chat = TRUE, template = dated, journal = journal)
#' }
#' first <- with_chat_date("2026-01-31", ask())
#' again <- with_chat_date(as.Date("2026-01-31"), ask())
#' attr(again, "stats")$n_journal
#' close(model)
with_chat_date <- function(date, code) {
  check_given(date, "The day that chat templates write, such as \"2026-01-31\".")
  date <- check_date(date)
  before <- py_call("chat_date_enter", date)
  on.exit(py_call("chat_date_leave", before))
  code
}
