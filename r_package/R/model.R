#' Load a model
#'
#' Loads a model from a GGUF file.
#'
#' @param model_path Path of a GGUF file; `~` is expanded. Addresses on the internet are
#'   not downloaded by this version: the error says what to do.
#' @param cache_dir,show_progress,force_redownload,hf_token For downloads, which this
#'   version does not do. Accepted, so that scripts run unchanged.
#' @param n_gpu_layers Number of layers to keep in video memory; negative: all of them.
#'   Without a GPU there is a warning and the processor does the work.
#' @param use_mmap TRUE maps the file into memory instead of reading it.
#' @param use_mlock TRUE keeps the model from being swapped out.
#' @param verify_integrity TRUE checks that the file is a GGUF file before Python is
#'   started. Loading itself always checks the file: one that is cut off or damaged is
#'   refused with the reason.
#' @param check_memory TRUE refuses a model that is larger, with its adapters, than the
#'   memory available now; models with layers on a GPU are not checked.
#' @param verbosity Negative: errors only. From 2 on, also a line about the model. The
#'   rest is the default: errors and warnings.
#' @param lora LoRA adapters that were made for the model, as GGUF files: their paths, or
#'   numbers to scale them by, named by their paths, as in `c("a.gguf" = 0.5)`. Several add
#'   up. NULL: none.
#' @returns A `llamaherd_model`. `close()` gives its memory back; so does R when no
#'   variable holds it any more.
#' @seealso [context_create()], [model_metadata()]
#' @export
#' @examples
#' \dontrun{
#' model <- model_load("~/models/SmolLM2-135M-Instruct.Q4_1.gguf")
#' model
#' model_load("~/models/base.gguf", lora = "~/models/adapter.gguf")
#' model_load("~/models/base.gguf", lora = c("~/models/adapter.gguf" = 0.5))
#' }
model_load <- function(
  model_path,
  cache_dir = NULL,
  n_gpu_layers = 0L,
  use_mmap = TRUE,
  use_mlock = FALSE,
  show_progress = TRUE,
  force_redownload = FALSE,
  verify_integrity = TRUE,
  check_memory = TRUE,
  hf_token = NULL,
  verbosity = 1L,
  lora = NULL
) {
  path <- check_model_path(model_path, check_flag(verify_integrity))
  check_string(cache_dir, null = TRUE)
  check_flag(show_progress)
  check_flag(force_redownload)
  check_string(hf_token, null = TRUE)
  options <- list(
    n_gpu_layers = check_whole(n_gpu_layers),
    use_mmap = check_flag(use_mmap),
    use_mlock = check_flag(use_mlock),
    check_memory = check_flag(check_memory)
  )
  options$lora <- check_lora(lora)
  verbosity <- check_whole(verbosity)

  value <- quietly(verbosity < 0, py_call("model_load", path, options))
  model <- structure(c(value, list(path = path)), class = "llamaherd_model")
  if (verbosity >= 2) {
    cli::cli_inform(format(model))
  }
  model
}

check_model_path <- function(model_path, verify, error_call = rlang::caller_env()) {
  path <- check_string(model_path, error_call = error_call)
  if (grepl("^[A-Za-z][A-Za-z0-9+.-]+://", path)) {
    file <- encodeString(basename(sub("[?#].*$", "", path)), quote = "\"")
    abort(
      c(
        "{.arg model_path} is an address, and models are not downloaded: {.url {path}}.",
        i = "Download it once, for example with {.code curl::curl_download(url, {file})},
             and give the path of the file."
      ),
      "model",
      error_call
    )
  }
  path <- path.expand(path)
  if (!file.exists(path) || dir.exists(path)) {
    abort(
      c(
        "{.arg model_path} names no file: {.path {path}}.",
        i = "The working directory is {.path {getwd()}}."
      ),
      "model",
      error_call
    )
  }
  if (verify && !identical(readBin(path, "raw", 4L), charToRaw("GGUF"))) {
    abort("{.arg model_path} is no GGUF file: {.path {path}}.", "model", error_call)
  }
  path
}

# Pairs of path and scale, as Python takes them; NULL for none.
check_lora <- function(
  x,
  arg = rlang::caller_arg(x),
  error_call = rlang::caller_env()
) {
  if (length(x) == 0) {
    return(NULL)
  }
  items <- if (is.vector(x)) as.list(x) else list(x)
  is_path <- vapply(items, \(item) is.character(item) && length(item) == 1, FALSE)
  is_scale <- vapply(items, \(item) is.numeric(item) && length(item) == 1, FALSE)
  if (!all(is_path | (is_scale & nzchar(rlang::names2(items)))) || anyNA(items)) {
    must <- "paths of adapters, or scales named by their paths"
    hint <- "As in c(\"adapter.gguf\" = 0.5)."
    abort_argument(arg, must, x, error_call, hint)
  }
  paths <- check_text(
    ifelse(is_path, as.character(items), rlang::names2(items)),
    arg,
    error_call
  )
  paths <- path.expand(paths)
  missing <- !file.exists(paths) | dir.exists(paths)
  if (any(missing)) {
    path <- paths[missing][[1]]
    abort("{.arg {arg}} names no file: {.path {path}}.", "model", error_call)
  }
  scales <- lapply(seq_along(items), \(i) if (is_path[[i]]) 1 else as.double(items[[i]]))
  unname(Map(list, as.list(paths), scales))
}

quietly <- function(quiet, expr) {
  if (quiet) suppressWarnings(expr, classes = "llamaherd_warning") else expr
}

format_bytes <- function(x) {
  unit <- min(max(floor(log(max(x, 1), 1024)), 0), 4)
  paste(
    format(
      round(x / 1024^unit, if (unit > 1) 1 else 0),
      nsmall = if (unit > 1) 1 else 0
    ),
    c("bytes", "KiB", "MiB", "GiB", "TiB")[[unit + 1]]
  )
}

#' Metadata of a model
#'
#' All keys and values that the model's GGUF file holds.
#'
#' @param model A `llamaherd_model` from [model_load()].
#' @returns A named character vector with one element per key; numbers are given as text.
#' @export
#' @examples
#' \dontrun{
#' model_metadata(model)[["general.architecture"]]
#' }
model_metadata <- function(model) {
  object <- check_model(model)
  value <- py_call("model_metadata", object)
  stats::setNames(as_text(value[["values"]]), as_text(value[["keys"]]))
}

#' @export
format.llamaherd_model <- function(x, ...) {
  problem <- object_problem(x)
  c(
    paste0("<llamaherd_model> ", basename(x$path)),
    sprintf(
      "%s, %s, trained for %s tokens of context",
      x$description,
      format_bytes(x$size_bytes),
      format(x$n_ctx_train, big.mark = ",")
    ),
    if (!is.null(problem)) paste("It", problem)
  )
}

#' @export
print.llamaherd_model <- function(x, ...) {
  writeLines(format(x, ...))
  invisible(x)
}

#' @export
close.llamaherd_model <- function(con, ...) {
  close_object(con)
}
