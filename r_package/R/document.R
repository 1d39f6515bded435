#' Keep a log of a run
#'
#' Between `document_start()` and `document_end()` a text file records the events of this session:
#' loaded files with their SHA-256; calls with their numbers of prompts, settings, and the SHA-256
#' of prompts and answers; coded texts with their codebooks, gold samples, validations and
#' estimates. Each event is written as soon as it has happened, so that a crash loses no earlier
#' event.
#'
#' You can share a log: it contains no texts and no names of people. But a log contains the full
#' paths of files, with `~` for your home folder, and the values that `"auto"` chose.
#'
#' `document_end()` writes the SHA-256 of the log into a file with the same name and the extension
#' `.sha256`, in the format of `sha256sum --check`.
#'
#' @param path Path of the log. NULL uses `llamaherd_run_<time>.txt` in the working directory.
#' @param metadata A named list to write into the log, such as `list(project = "survey", wave = 2)`.
#' @param append TRUE adds to an existing file; with FALSE, an existing file causes an error.
#' @returns Both return the path, invisibly. The return value of `document_end()` has the attribute
#'   `hash`, the SHA-256 of the file's bytes. On a full disk no event is written in part: a
#'   warning names the event that is missing, and `document_end()` causes an error and can be
#'   called again.
#' @seealso `generate_parallel(journal = )` for keeping the answers themselves
#' @export
#' @examplesIf llamaherd_available()
#' path <- document_start(tempfile(fileext = ".txt"), metadata = list(project = "rivers"))
#' log <- document_end()
#' writeLines(readLines(path))
#' attr(log, "hash")
document_start <- function(path = NULL, metadata = list(), append = FALSE) {
  if (!is.null(the$document)) {
    abort(c(
      "A log is being written already: {.path {the$document$path}}.",
      i = "End it with {.code document_end()} first."
    ))
  }
  path <- py_path(path) %||% format(Sys.time(), "llamaherd_run_%Y%m%d_%H%M%S.txt")
  if (!is.list(metadata) || !(length(metadata) == 0 || rlang::is_named(metadata))) {
    abort_argument("metadata", "a named list", metadata)
  }
  append <- check_flag(append)
  now <- Sys.time()
  lines <- c(
    "llamaherd run log",
    paste("File:", base_name(path)),
    paste("Started:", stamp(now)),
    "",
    "Events:"
  )
  py_call("begin_log", path, as.list(lines), append)
  the$document <- list(path = full_path(path), start = now)
  info <- Sys.info()
  document_event(
    "document_start",
    package_version = as.character(utils::packageVersion("llamaherd")),
    r_version = R.version.string,
    platform = R.version$platform,
    os = info[["sysname"]],
    release = info[["release"]],
    working_directory = log_path(getwd()),
    metadata
  )
  invisible(path)
}

#' @rdname document_start
#' @export
document_end <- function() {
  if (is.null(the$document)) {
    abort(c(
      "No log is being written.",
      i = "Start one with {.code document_start()}."
    ))
  }
  now <- Sys.time()
  took <- as.double(difftime(now, the$document$start, units = "secs"))
  path <- the$document$path
  lines <- c(
    sprintf("- [%s] document_end", stamp(now)),
    "    {}",
    "",
    paste("Ended:", stamp(now)),
    sprintf("Duration: %.1f s", took)
  )
  hash <- py_call("end_log", path, as.list(lines))
  the$document <- NULL
  cli::cli_inform("The log is {.path {path}} (SHA-256 {hash}).")
  invisible(structure(path, hash = hash))
}

# Records an event if a log is being written; otherwise the details in `...` are not evaluated. A
# list without a name contains several details.
document_event <- function(event, ...) {
  if (is.null(the$document)) {
    return(invisible())
  }
  arguments <- list(...)
  details <- Map(
    \(value, name) if (nzchar(name)) rlang::set_names(list(value), name) else value,
    unname(arguments),
    rlang::names2(arguments)
  )
  text <- jsonlite::toJSON(
    do.call(c, details),
    auto_unbox = TRUE,
    null = "null",
    na = "null",
    digits = NA,
    force = TRUE,
    pretty = TRUE
  )
  lines <- strsplit(text, "\n", fixed = TRUE)[[1]]
  entry <- c(sprintf("- [%s] %s", stamp(Sys.time()), event), paste0("    ", lines))
  # An error would lose the return value of the call, such as answers that took hours.
  frame <- public_frame()
  rlang::try_fetch(
    py_call("append_lines", the$document$path, as.list(entry)),
    llamaherd_error_argument = \(cnd) {
      text <- "The event {.val {event}} is missing in the log {.path {the$document$path}}."
      warn(c(text, i = "{conditionMessage(cnd)}"), "log", frame)
    }
  )
  invisible()
}

# Returns details of a call: settings, and the SHA-256 of prompts and of `output`, the answers.
document_answers <- function(event, context, prompts, result, output, settings) {
  settings <- c(settings, prompts$options) # how a chat was rendered, thoughts
  document_event(
    event,
    model = base_name(context$model$path),
    n_prompts = length(prompts$values),
    n_failed = sum(attr(result, "finish_reason") == "error"),
    input_hash = lines_sha256(prompts$text),
    output_hash = lines_sha256(output),
    sizes_of(attr(result, "stats")),
    settings = settings[lengths(settings) > 0]
  )
}

# Returns the values that "auto" chose.
sizes_of <- function(stats) {
  unclass(stats)[intersect(c("n_slots", "n_ctx", "seed"), names(stats))]
}

# Records the details of annotate_texts().
document_coding <- function(result) {
  coding <- attr(result, "llamaherd")
  run <- coding$run
  document_event(
    "annotate_texts",
    model = run$model[intersect(c("file", "sha256"), names(run$model))],
    codebook = coding$codebook$hash,
    n_texts = nrow(result),
    input_hash = run$texts_sha256,
    output_hash = lines_sha256(labels_of_coding(result, coding)),
    sizes_of(coding$stats),
    settings = run$settings
  )
}

# Returns the labels as texts, fields as JSON; NULL if the columns do not exist.
labels_of_coding <- function(x, coding) {
  coding$answers %||%
    if (isTRUE(coding$label %in% names(x))) value_text(x[[coding$label]])
}

# Returns the full path of a file for a log. `~` replaces the home folder, whose name would show its
# owner.
log_path <- function(path) {
  is_whole <- grepl("^(/|~|[A-Za-z]:|\\\\\\\\)", path)
  path <- if (is_whole) path else file.path(getwd(), path)
  path <- full_path(path)
  homes <- c("~", Sys.getenv(c("HOME", "USERPROFILE")))
  homes <- normalizePath(homes[nzchar(homes)], winslash = "/", mustWork = FALSE)
  for (home in homes[nchar(homes) > 1]) {
    if (startsWith(paste0(path, "/"), paste0(home, "/"))) {
      return(paste0("~", substring(path, nchar(home) + 1L)))
    }
  }
  path
}

# Returns the source of a model for a log: a file, a name, or an address without passwords.
log_source <- function(source) {
  if (file_exists(source)) {
    return(log_path(source))
  }
  sub("[?#].*$", "", sub("^([a-z]+://)[^/@]*@", "\\1", source, ignore.case = TRUE))
}

# Computes the SHA-256 of texts, each followed by a newline, as sha256sum does for a file with these
# lines.
lines_sha256 <- function(text) {
  text <- value_text(text)
  text[is.na(text)] <- "NA"
  sha256(paste0(text, rep("\n", length(text)), collapse = ""))
}

stamp <- function(time) format(time, "%Y-%m-%d %H:%M:%S %z")
