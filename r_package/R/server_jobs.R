# Jobs on a server. The R object of a job does not contain the server's key, so that users can save
# the object.

#' Run texts in the background
#'
#' Sends texts to a server of [server_start()], which answers, classifies or codes the texts while
#' you continue to work in R. Each result is on disk as soon as it is computed. With `stay = TRUE`
#' the server and its jobs continue after the end of the R session; save the job with [saveRDS()]
#' and fetch the results in another session.
#'
#' Jobs have the lowest priority: other requests to the server are answered first.
#'
#' @param texts Character vector of prompts or texts. A text that is NA is not sent, and its row has
#'   an error.
#' @param task `"generate"` answers prompts as [generate_parallel()] does, `"classify"` computes
#'   probabilities of labels as [classify_parallel()] does, `"annotate"` codes texts as
#'   [annotate_texts()] does.
#' @param ... Options of the task by name: for `"generate"` options such as `max_tokens`, `chat`,
#'   `system`, `schema` and `choices`; for `"classify"` options such as `labels`; for `"annotate"`
#'   options such as `codebook`. The defaults are those of [generate_parallel()],
#'   [classify_parallel()] or [annotate_texts()]. `calibrate = "batch"` needs a job of at most 32
#'   texts, because one request contains at most 32 texts.
#' @param server Name of the server.
#' @param model Name of a model or adapter of the server. NULL uses the server's first model.
#' @param job A job of `job_submit()`.
#' @param cancel TRUE cancels the job; results that were already computed are kept. A job that has
#'   ended does not change.
#' @param wait TRUE waits for the end of the job. With FALSE, a job that has not ended causes an
#'   error.
#' @returns `job_submit()`: a list of class `llamaherd_server_job` with `id`, `server`, `task`, `n`
#'   (number of texts) and `names` (names of the texts).
#'
#'   `job_status()`: a list with `status`, `done` (TRUE if the job has ended), the numbers of
#'   requests `n_requests`, `n_answered` and `n_failed`, and `errors`. The status is
#'   `"validating"`, `"in_progress"`, `"finalizing"`, `"completed"`, `"failed"`, `"expired"`,
#'   `"cancelling"` or `"cancelled"`. `errors` gives the reasons why the job failed, or why it
#'   waits, for example because the disk of the server is full. Texts of `"classify"` and
#'   `"annotate"` are sent in requests of 32 texts each.
#'
#'   `job_results()`: a data frame with one row per text, in the order of the texts. The columns are
#'   the columns of the task, and `error`: the reason why a row has no result, otherwise NA. The
#'   columns of `"generate"` are `text`, `finish_reason` and, if the model thought, `thinking` and
#'   `thinking_complete`. If `max_tokens` cut an answer off inside its `schema`, `text` is NA, as in
#'   [generate_parallel()], and the column `partial` has the text so far. The columns of
#'   `"classify"` are `label`, `prob`, `margin`, `entropy`, `coverage` and `p_<label>`; the columns
#'   of `"annotate"` are as in [annotate_texts()]. `label` is a factor, as in [classify_parallel()]
#'   and [annotate_texts()]. If values are not single numbers or texts, their column is a list
#'   column. The names of `texts` are the names of the rows.
#' @seealso [server_start()]
#' @export
#' @examplesIf FALSE
#' server_start("model.gguf", stay = TRUE)
#' job <- job_submit(reviews$text, "classify", labels = c("good", "bad"))
#' saveRDS(job, "job.rds")
#'
#' # Tomorrow, in another session:
#' job <- readRDS("job.rds")
#' job_status(job)
#' results <- job_results(job)
job_submit <- function(
  texts,
  task = c("generate", "classify", "annotate"),
  ...,
  server = "default",
  model = NULL
) {
  error_call <- rlang::current_env()
  check_given(texts)
  if (is.factor(texts)) {
    texts <- stats::setNames(as.character(texts), names(texts))
  }
  if (!is.character(texts)) {
    hint <- if (is.data.frame(texts)) "Take the column with the texts, such as data$text."
    abort_argument("texts", "a character vector", texts, error_call, hint)
  }
  task <- rlang::arg_match(task)
  server <- check_string(server)
  model <- py_value(model)
  options <- list(...)
  if (length(options) > 0 && !rlang::is_named(options)) {
    abort("Options of a job are given by name.", "argument", error_call)
  }
  twice <- anyDuplicated(names(options))
  if (twice > 0) {
    name <- names(options)[[twice]]
    abort(c("{.arg {name}} is given twice."), "argument", error_call)
  }
  if (task == "annotate" && !is.null(options$codebook)) {
    check_codebook(options$codebook, "codebook", error_call)
  }
  columns <- columns_of_task(task, options, error_call)
  utf8 <- as_utf8(texts)
  values <- text_list(utf8)
  value <- py_call(
    "remote_submit",
    server,
    task,
    values,
    options_json(options, error_call),
    model
  )
  structure(
    list(
      id = value[["id"]],
      server = server,
      task = task,
      n = length(texts),
      names = names(texts),
      bad = which(is.na(utf8) & !is.na(texts)),
      columns = columns,
      codebook = if (task == "annotate") options$codebook
    ),
    class = "llamaherd_server_job"
  )
}

# Returns empty columns of a task, by name, in their type: a cancelled job has them, too. The column
# `label` is a factor if it is a factor in the return value of annotate_texts() or
# classify_parallel().
columns_of_task <- function(task, options, error_call) {
  texts <- character()
  numbers <- double()
  if (task == "generate") {
    return(list(text = texts, finish_reason = texts))
  }
  measures <- list(
    prob = numbers,
    margin = numbers,
    entropy = numbers,
    coverage = numbers
  )
  if (task == "classify") {
    if (is.null(options$labels)) {
      return(list()) # Python reports it, or the misspelt name
    }
    names <- unique(as_text(class_labels(options$labels, error_call)$names))
    probs <- stats::setNames(rep(list(numbers), length(names)), paste0("p_", names))
    return(c(list(label = factor(levels = names)), measures, probs))
  }
  book <- options$codebook
  if (!inherits(book, "llamaherd_codebook")) {
    return(list())
  }
  kinds <- py_call("job_columns", options_json(options, error_call))
  kinds <- kinds[setdiff(names(kinds), "error")]
  columns <- lapply(kinds, \(kind) vector(types_of_kinds[[kind]], 0L))
  if (book$type %in% c("label", "ordinal") && !book$is_numeric) {
    columns$label <- factor(
      levels = names(book$labels),
      ordered = book$type == "ordinal"
    )
  }
  columns
}

# R's types for the kinds of columns in Python.
types_of_kinds <- c(
  string = "character",
  integer = "integer",
  number = "double",
  boolean = "logical"
)

# Converts the columns of a job to the types of its task, and adds the columns that no row contains.
typed_columns <- function(frame, columns) {
  for (name in names(columns)) {
    like <- columns[[name]]
    values <- frame[[name]] %||% rep(NA, nrow(frame))
    if (is.list(values)) {
      next
    }
    frame[[name]] <- if (is.factor(like)) {
      factor(as.character(values), levels(like), ordered = is.ordered(like))
    } else {
      as.vector(values, typeof(like))
    }
  }
  frame[c(setdiff(names(frame), "error"), "error")]
}

# Names of options that are lists even with a single value.
list_options <- c("labels", "choices", "stop")

# Returns options as JSON. Vectors of length one become single values, except in `list_options`.
options_json <- function(options, error_call) {
  parts <- vapply(
    names(options),
    \(name) {
      value <- option_json(name, options[[name]], error_call)
      paste0(jsonlite::toJSON(name, auto_unbox = TRUE), ":", value)
    },
    ""
  )
  paste0("{", paste(parts, collapse = ","), "}")
}

option_json <- function(name, value, error_call) {
  if (name == "schema") {
    return(schema_text(value, "schema", error_call))
  }
  if (inherits(value, "llamaherd_codebook")) {
    return(value$content)
  }
  if (name == "labels" && !is.null(names(value))) {
    labels <- class_labels(value, error_call)
    value <- stats::setNames(labels$names, as_text(labels$labels)) # text: name
  }
  if (name %in% c("labels", "choices")) {
    value <- label_set(value)
  }
  as_list <- name %in% list_options || !is.null(names(value))
  if (is.atomic(value) && as_list) {
    value <- as.list(value)
  }
  as.character(jsonlite::toJSON(value, auto_unbox = TRUE, null = "null", digits = NA))
}

#' @rdname job_submit
#' @export
job_status <- function(job, cancel = FALSE) {
  check_job(job)
  value <- remote_call("remote_job", job$server, job$id, py_value(cancel))
  list(
    status = value[["status"]],
    done = value[["is_done"]],
    n_requests = value[["n_requests"]],
    n_answered = value[["n_done"]],
    n_failed = value[["n_failed"]],
    errors = as_text(value[["errors"]])
  )
}

#' @rdname job_submit
#' @export
job_results <- function(job, wait = TRUE) {
  check_job(job)
  if (check_flag(wait)) {
    wait_for_server_job(job)
  }
  value <- remote_call("remote_results", job$server, job$id, job$codebook$content)
  for (note in value[["notes"]]) {
    rlang::inform(note)
  }
  job_frame(value, job)
}

# Waits for the end of a job. Shows each reason why the job does not continue at present once.
wait_for_server_job <- function(job, status_of = job_status) {
  told <- character()
  repeat {
    status <- status_of(job)
    if (status$done) {
      break
    }
    new <- setdiff(status$errors, told)
    for (text in new) {
      rlang::inform(c("!" = text), class = "llamaherd_message_job")
    }
    told <- c(told, new)
    Sys.sleep(slice_s)
  }
}

# Converts rows from Python, see the Python function job_rows(), to the data frame of a job.
job_frame <- function(value, job) {
  rows <- jsonlite::fromJSON(value[["rows"]], simplifyVector = FALSE)
  frame <- rows_frame(rows, job$names)
  if (!is.null(value[["answers"]])) {
    answers <- as_text(value[["answers"]])
    made <- text_columns(answers, schema_columns(job$codebook$schema))
    others <- as.list(frame)
    frame <- new_frame(c(as.list(made), others), nrow(frame), attr(frame, "row.names"))
  }
  frame <- typed_columns(frame, job$columns)
  frame$error[job$bad] <- invalid_text
  frame
}

check_job <- function(job, error_call = rlang::caller_env()) {
  check_given(job, error_call = error_call)
  if (!inherits(job, "llamaherd_server_job")) {
    abort_argument("job", "a job of job_submit()", job, error_call)
  }
}

# Returns a data frame of rows, which may have different fields; `error` is last.
rows_frame <- function(rows, row_names) {
  fields <- unique(unlist(lapply(rows, names)))
  columns <- lapply(
    stats::setNames(nm = c(setdiff(fields, "error"), "error")),
    \(field) answer_column(lapply(rows, \(row) row[[field]]))
  )
  columns$error <- as.character(columns$error)
  frame <- structure(
    columns,
    class = "data.frame",
    row.names = row_names %||% seq_along(rows)
  )
  frame
}

# Returns cells as a vector with NA for NULL; as a list if a cell has several values.
answer_column <- function(cells) {
  if (!all(lengths(cells) <= 1) || any(vapply(cells, is.list, NA))) {
    return(I(cells))
  }
  cells[lengths(cells) == 0] <- NA
  unlist(cells)
}

#' @export
format.llamaherd_server_job <- function(x, ...) {
  texts <- plural(x$n, "text")
  sprintf(
    "<llamaherd job %s> %s %d %s on the server %s",
    x$id,
    x$task,
    x$n,
    texts,
    x$server
  )
}
