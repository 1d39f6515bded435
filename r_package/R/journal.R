#' Read a journal
#'
#' Returns the results that [generate_parallel()] stored with its argument `journal`. The file may
#' be in use by a running call of any session. No model is needed.
#'
#' @param path Path of a journal; `~` is expanded.
#' @returns A data frame with one row per result, in the order in which they were first stored:
#'
#'   * `prompt`; `text`, the answer. `text` is NA if the last try failed, and for
#'     [classify_parallel()] and [annotate_texts()], which only score labels.
#'   * `finish_reason`: `"stop"`, `"length"` or `"error"`; `complete`: TRUE if the answer was not
#'     cut off; `error`: the reason of a failure, NA for all others.
#'   * `n_prompt_tokens`, `n_generated_tokens` and `seed`.
#'   * `thinking`, the thought before the answer as the model wrote it, NA if there is no thought;
#'     `n_thinking_tokens`, the number of its tokens; and `thinking_complete`, FALSE if it used up
#'     its budget.
#'   * `model`, the name of the model's file, and `model_sha256`, its SHA-256.
#'   * `settings`: further settings that affect the text, as JSON: `max_tokens`, `stop`, sampling
#'     settings other than the defaults, settings of the context.
#'   * `created`: time of storage, a [POSIXct][base::DateTimeClasses] in UTC; `version`: version of
#'     llamaherd.
#'
#'   A file that is not a journal, or is damaged, causes an error of class
#'   `llamaherd_error_journal`. The file remains unchanged.
#' @seealso [generate_parallel()]
#' @export
#' @examplesIf !is.null(llamaherd_example_model())
#' model <- model_load(llamaherd_example_model())
#' context <- context_create(model)
#' journal <- tempfile(fileext = ".sqlite")
#' answers <- generate_parallel(context, "The sky is", max_tokens = 4, journal = journal)
#' journal_read(journal)
#' close(model)
journal_read <- function(path) {
  error_call <- rlang::current_env()
  path <- py_path(path)
  from_python(py_call("journal_read", path, error_call = error_call))
}

#' @export
print.llamaherd_journal <- function(x, ..., n = 20L, width = getOption("width")) {
  cat(sprintf("<llamaherd_journal> %s %s\n", big(nrow(x)), plural(nrow(x), "result")))
  frame <- new_frame(as.list(x), nrow(x))
  print_rows(frame, n, width, c("prompt", "text", "finish_reason"))
  invisible(x)
}

expand_path <- function(path) {
  if (is.null(path)) {
    return(NULL)
  }
  home <- startsWith(path, "~")
  # path.expand() truncates long paths.
  path[home] <- r_path(path.expand(native_path(path[home])))
  as_utf8(path)
}
