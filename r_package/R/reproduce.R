#' Repeat the coding of a report
#'
#' Labels the texts of a report again and compares every label and every probability, bit by bit.
#' Model, codebook and texts must be the original ones; different versions and machines are
#' reported. If the context was created with `deterministic = TRUE`, results are identical with the
#' same versions, also in a new session and with another `n_seq_max`. Without `deterministic`
#' results are probably identical. The function finds the model files of later steps (`until`,
#' `larger`) by name and content: next to the report, in the working directory, next to the model's
#' file and in the model cache.
#'
#' @param path Path of a [report()], either the page or the JSON.
#' @param model The model's file; or a model or context. NULL searches for a file of the same name
#'   next to the report, in the working directory and in the model cache.
#' @param data For a report without texts: the data frame that was labelled, with the same rows in
#'   the same order.
#' @param text Column of texts in `data`. NULL uses the original name.
#' @param n_seq_max Maximum number of prompts that run at a time. NULL uses the original value.
#' @param n_threads Number of threads. NULL uses the original value, at most the number of cores.
#' @inheritParams generate_parallel
#' @returns A `llamaherd_reproduction`, which prints the comparison: a list with these elements:
#'
#'   * `same`: TRUE if everything is identical.
#'   * `n`: number of compared rows.
#'   * `n_same`, `n_same_labels`: number of rows with identical results, and number of rows with
#'     identical labels.
#'   * `largest_difference`: largest absolute difference between an original probability and a new
#'     one.
#'   * `deterministic`: whether both runs were deterministic.
#'   * `summary_same`: whether the counts and shares in the report are those of its labels.
#'   * `changed`: a data frame of the rows whose label is different now.
#'   * `versions`: a data frame of the versions and settings that differ now.
#' @seealso [report()]
#' @export
#' @examplesIf !is.null(llamaherd_example_model())
#' news <- read.csv(system.file("extdata", "headlines.csv", package = "llamaherd"))
#' topics <- codebook("Label the topic of each news text.", unique(news$topic))
#' model <- model_load(llamaherd_example_model())
#' context <- context_create(model, deterministic = TRUE)
#' coded <- annotate_texts(news[c(1, 16, 31, 46), ], text, topics, context)
#' path <- tempfile(fileext = ".json")
#' report(coded, path)
#'
#' # Usually run in another session, or by another person. With `model`, reproduce() does not
#' # search for the model's file.
#' reproduce(path, model = model, n_seq_max = 2)
reproduce <- function(
  path,
  model = NULL,
  data = NULL,
  text = NULL,
  n_seq_max = NULL,
  n_threads = NULL,
  progress = interactive()
) {
  error_call <- rlang::current_env()
  path <- py_path(path)
  result <- call_python(
    "reproduce",
    list(
      path = path,
      model = model_for_reproduce(model, error_call),
      data = texts_for_reproduce(data, text, error_call),
      text = if (!is.null(data)) "text",
      n_seq_max = py_value(n_seq_max),
      n_threads = py_value(n_threads)
    ),
    check_flag(progress),
    ended = "Interrupted: not all texts were coded again.",
    error_call = error_call
  )
  keeping(result, {
    document_event("reproduce", \() {
      c(list(report = log_path(path)), result[c("same", "n", "n_same", "n_same_labels")])
    })
  })
  result
}

model_for_reproduce <- function(model, error_call) {
  if (is.null(model)) {
    return(NULL)
  }
  if (inherits(model, c("llamaherd_context", "llamaherd_model"))) {
    return(as_python(model, "model", error_call))
  }
  if (!rlang::is_string(model)) {
    must <- "a path, a <llamaherd_model> or a <llamaherd_context>"
    abort_argument("model", must, model, error_call)
  }
  expand_path(model)
}

texts_for_reproduce <- function(data, text, error_call) {
  if (is.null(data)) {
    return(NULL)
  }
  if (!is.data.frame(data)) {
    abort_argument("data", "a data frame", data, error_call)
  }
  if (is.null(text)) {
    text <- attr(data, "llamaherd")$text %||% "text"
  }
  text <- check_string(text)
  if (!text %in% names(data)) {
    must <- paste("the name of a column, of which there are", toString(names(data)))
    abort_argument("text", must, text, error_call)
  }
  tagged("frame", content = list(text = text_list(as.character(data[[text]]))))
}
