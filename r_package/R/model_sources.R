#' Download a model
#'
#' Downloads the file of a model unless it is in the cache. [model_load()] does this automatically;
#' its help page describes the names of models.
#'
#' @inheritParams model_load
#' @param model_url Model to download, such as `"hf:owner/repo:Q4_K_M"` or an address.
#' @param output_path Path or folder to which the file is copied. NULL keeps the file only in the
#'   cache.
#' @param max_retries Ignored, for compatibility: a broken connection is always retried, until five
#'   consecutive tries receive no new data.
#' @param verify_integrity TRUE checks that the file is a GGUF file. The file's SHA-256 is always
#'   compared with the SHA-256 that the hub states.
#' @returns The path of the file, invisibly.
#' @seealso [model_load()], [list_cached_models()]
#' @export
#' @examples
#' \dontrun{
#' # Downloads 92 MB:
#' download_model("hf:unsloth/SmolLM2-135M-Instruct-GGUF:Q4_K_M")
#' }
download_model <- function(
  model_url,
  output_path = NULL,
  show_progress = TRUE,
  verify_integrity = TRUE,
  max_retries = 3,
  hf_token = NULL,
  cache_dir = NULL,
  force_redownload = FALSE,
  check_memory = TRUE
) {
  error_call <- rlang::current_env()
  model_url <- check_string(model_url)
  output_path <- expand_path(check_string(output_path, null = TRUE))
  check_whole(max_retries)
  progress <- check_flag(show_progress)
  verify <- check_flag(verify_integrity)
  options <- fetch_options(
    py_path(cache_dir),
    py_value(force_redownload),
    py_value(check_memory),
    check_string(hf_token, null = TRUE)
  )
  path <- find_model(model_url, options, progress, 1L, error_call)
  if (verify) {
    check_gguf(path, error_call)
  }
  if (!is.null(output_path) && output_path != path) {
    if (!copy_whole(path, output_path)) {
      abort(
        c(
          "{.arg output_path} cannot be written: {.path {output_path}}.",
          i = "Is the disk full, or the folder read-only? Free space and try again."
        ),
        "model",
        error_call
      )
    }
    is_folder <- dir_exists(output_path)
    path <- if (is_folder) file.path(output_path, base_name(path)) else output_path
  }
  invisible(path)
}

# ---- searching and downloading -----------------------------------------------------------

fetch_options <- function(cache_dir, force, check_memory, token) {
  # Python copied R's environment variables when it started and does not see later changes.
  token <- token %||% Sys.getenv("HF_TOKEN")
  options <- list(force = force, check_memory = check_memory)
  options$cache_dir <- cache_dir
  options$token <- if (nzchar(token)) token
  options
}

# Returns the path of a model's file. For local files Python is not needed.
find_model <- function(source, options, progress, verbosity, error_call) {
  path <- expand_path(check_text(source, "model_path", error_call))
  is_local <- !grepl("^[A-Za-z][A-Za-z0-9+.-]+:", path)
  if (is_local && file_exists(path) && !dir_exists(path)) {
    return(path)
  }
  if (is_local && (dir_exists(path) || grepl("[/\\\\]", path))) {
    abort(
      c(
        "{.arg model_path} names no file: {.path {path}}.",
        i = "The working directory is {.path {getwd()}}.",
        i = "{.code list_cached_models()} shows what is here;
             {.code model_load(\"hf:owner/repo\")} downloads a model."
      ),
      "model",
      error_call
    )
  }
  run_fetch(source, options, progress, verbosity, error_call)
}

# Downloads a model. Ctrl-C ends the download and keeps its bytes for the next call. R does not wait
# for the job to end, because the job waits up to half a minute for a server that does not respond.
run_fetch <- function(source, options, progress, verbosity, error_call) {
  run <- run_in_slices(
    py_call("fetch_start", source, options, error_call = error_call),
    \(job) py_call("fetch_result", job, error_call = error_call),
    new_bar(progress, verbosity),
    error_call,
    keep = FALSE
  )
  if (run$interrupted) {
    interrupt("Interrupted: the same call continues the download.", NULL, verbosity)
  }
  r_path(run$columns)
}

# Returns the fastest file for this computer. The search for the fastest file runs only once.
optimized_path <- function(path, cache_dir, progress, verbosity, error_call) {
  found <- py_call("optimized_look", path, cache_dir, error_call = error_call)
  if (!is.null(found[["path"]])) {
    return(r_path(found[["path"]]))
  }
  if (verbosity >= 0) {
    cli::cli_inform(
      "Looking for the fastest file of {.file {base_name(path)}} on this computer, once."
    )
  }
  work <- found[["work"]]
  on.exit(py_call("optimized_drop", work))
  report <- run_optimize(path, work, list(max_kl = 0.01), progress, error_call)
  if (verbosity >= 0) {
    cli::cli_inform("{report[['verdict']]}")
  }
  r_path(py_call(
    "optimized_keep",
    path,
    work,
    report[["path"]],
    report[["verdict"]],
    cache_dir,
    error_call = error_call
  ))
}

as_time <- function(seconds) {
  as.POSIXct(as.double(unlist(seconds)), origin = "1970-01-01", tz = "UTC")
}
