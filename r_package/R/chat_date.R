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
  error_call <- rlang::current_env()
  check_given(date, "The day that chat templates write, such as \"2026-01-31\".")
  date <- check_date(date)
  before <- py_call("chat_date_enter", date, error_call = error_call)
  on.exit(py_call("chat_date_leave", before))
  code
}
