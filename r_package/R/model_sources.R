#' Download a model
#'
#' Downloads a model's file, if it is not in the cache yet. [model_load()] does this on its
#' way, and describes what a model may be called.
#'
#' @inheritParams model_load
#' @param model_url What to download, such as `"hf:owner/repo:Q4_K_M"` or an address.
#' @param output_path Path to copy the file to; NULL: it stays in the cache.
#' @param max_retries Accepted, so that scripts run unchanged: a connection that breaks is
#'   gone on with, five times in a row without anything new.
#' @param verify_integrity TRUE checks that the file is a GGUF file. The SHA-256 that the hub
#'   states is always compared.
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
  check_string(model_url)
  output_path <- expand_path(check_string(output_path, null = TRUE))
  check_whole(max_retries, min = 0)
  progress <- check_flag(show_progress)
  verify <- check_flag(verify_integrity)
  options <- fetch_options(
    expand_path(check_string(cache_dir, null = TRUE)),
    check_flag(force_redownload),
    check_flag(check_memory),
    check_string(hf_token, null = TRUE)
  )
  path <- find_model(model_url, options, progress, 1L, error_call)
  if (verify) {
    check_gguf(path, error_call)
  }
  if (!is.null(output_path) && output_path != path) {
    if (!file.copy(path, output_path, overwrite = TRUE)) {
      abort(
        "{.arg output_path} cannot be written: {.path {output_path}}.",
        "model",
        error_call
      )
    }
    path <- output_path
  }
  invisible(path)
}

#' Models on this computer
#'
#' `list_cached_models()` lists the model files in the cache: those that [model_load()]
#' downloaded or somebody put there, and those that other programs downloaded from the
#' Hugging Face hub. `list_ollama_models()` lists those that Ollama has, which need not run
#' for that. `get_model_cache_dir()` tells the folder of the cache; the environment variable
#' `LLAMAHERD_CACHE_DIR` names another one.
#'
#' @param cache_dir Folder to look in; NULL: the usual ones.
#' @param min_size_mb Smallest size, in MB, of a model of Ollama's that is listed.
#' @param verify Accepted, so that scripts run unchanged: files that are no GGUF files are
#'   never listed.
#' @returns `list_cached_models()`: a data frame with a row for each file, the newest first:
#'   `name`, `path`, `size_bytes`, `modified` and `source`, where it came from, such as
#'   `"hf:owner/repo"`, and NA of a file that somebody put there. It has no rows where there is
#'   nothing.
#'
#'   `list_ollama_models()`: a data frame with `name`, `path`, `size_mb`, `size_gb`,
#'   `size_bytes`, `sha256`, `modified`, `source`, `tag` and `model`; `name` goes into
#'   `model_load("ollama:NAME")`.
#'
#'   `get_model_cache_dir()`: a string.
#' @seealso [model_load()]
#' @export
#' @examplesIf llamaherd_available()
#' list_cached_models()
#' list_ollama_models()
#' get_model_cache_dir()
list_cached_models <- function(cache_dir = NULL) {
  cache_dir <- expand_path(check_string(cache_dir, null = TRUE))
  columns <- py_call("cached_models", cache_dir)
  models <- data.frame(
    name = as_text(columns[["name"]]),
    path = as_text(columns[["path"]]),
    size_bytes = as.double(unlist(columns[["size_bytes"]])),
    modified = as_time(columns[["modified"]]),
    source = as_text(columns[["source"]])
  )
  models$source[!nzchar(models$source)] <- NA
  if (nrow(models) == 0) {
    cli::cli_inform(c(
      "There are no models in the cache.",
      i = "{.code model_load(\"hf:owner/repo\")} downloads one."
    ))
  }
  models
}

#' @rdname list_cached_models
#' @export
list_ollama_models <- function(min_size_mb = 50, verify = TRUE) {
  min_size_mb <- check_number(min_size_mb)
  check_flag(verify)
  columns <- py_call("ollama_models")
  name <- as_text(columns[["name"]])
  size <- as.double(unlist(columns[["size_bytes"]]))
  models <- data.frame(
    name = name,
    path = as_text(columns[["path"]]),
    size_mb = size / 1e6,
    size_gb = size / 1e9,
    size_bytes = size,
    sha256 = as_text(columns[["sha256"]]),
    modified = as_time(columns[["modified"]]),
    source = rep("ollama", length(name)),
    tag = sub("^.*:", "", name),
    model = sub(":[^:]*$", "", name)
  )
  models <- models[models$size_mb >= min_size_mb, , drop = FALSE]
  row.names(models) <- NULL
  models
}

#' @rdname list_cached_models
#' @export
get_model_cache_dir <- function() py_call("cache_dir")

#' Access token of the Hugging Face hub
#'
#' Some models can be downloaded only by those who accepted their terms. The hub knows them by
#' a token, which <https://huggingface.co/settings/tokens> gives. It is sent to the hub alone,
#' and stands in no message and, unless you ask for it, in no file.
#'
#' @param token The token. It is put into the environment variable `HF_TOKEN` of this session.
#' @param persist TRUE also writes it into a file of yours, as plain text.
#' @param renviron_path With `persist = TRUE`: that file, such as `"~/.Renviron"`.
#' @returns The token, invisibly.
#' @seealso [model_load()]
#' @export
#' @examples
#' old <- Sys.getenv("HF_TOKEN")
#' set_hf_token("hf_example")
#' Sys.setenv(HF_TOKEN = old)
set_hf_token <- function(token, persist = FALSE, renviron_path = NULL) {
  error_call <- rlang::current_env()
  if (!is_token(token)) {
    # Never with the value.
    abort(
      c(
        "{.arg token} must be an access token of the hub: one word, which is not shown here.",
        i = "{.url https://huggingface.co/settings/tokens} gives it."
      ),
      "argument",
      error_call
    )
  }
  token <- trimws(token)
  renviron_path <- expand_path(check_string(renviron_path, null = TRUE))
  if (check_flag(persist)) {
    if (is.null(renviron_path)) {
      abort(
        c(
          "{.code persist = TRUE} needs {.arg renviron_path}, the file to write the token to.",
          i = "R reads {.path ~/.Renviron} when it starts."
        ),
        "argument",
        error_call
      )
    }
    lines <- if (file.exists(renviron_path)) readLines(renviron_path, warn = FALSE)
    lines <- c(lines[!startsWith(lines, "HF_TOKEN=")], paste0("HF_TOKEN=", token))
    writeLines(lines, renviron_path)
    Sys.chmod(renviron_path, "600")
  }
  Sys.setenv(HF_TOKEN = token)
  invisible(token)
}

is_token <- function(token) {
  is.character(token) &&
    length(token) == 1 &&
    !is.na(token) &&
    nzchar(trimws(token)) &&
    !grepl("[^!-~]", trimws(token))
}

# ---- finding and downloading -----------------------------------------------------------

fetch_options <- function(cache_dir, force, check_memory, token) {
  # Python took R's environment when it started; what was set later it does not see.
  token <- token %||% Sys.getenv("HF_TOKEN")
  options <- list(force = force, check_memory = check_memory)
  options$cache_dir <- cache_dir
  options$token <- if (nzchar(token)) token
  options
}

# The path of a model's file. What is here needs no Python.
find_model <- function(source, options, progress, verbosity, error_call) {
  path <- path.expand(check_text(source, "model_path", error_call))
  is_local <- !grepl("^[A-Za-z][A-Za-z0-9+.-]+:", path)
  if (is_local && file.exists(path) && !dir.exists(path)) {
    return(path)
  }
  if (is_local && (dir.exists(path) || grepl("[/\\\\]", path))) {
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

# As run_optimize() does: Ctrl-C is let through between slices of waiting only. It ends the
# download, of which what is there is kept.
run_fetch <- function(source, options, progress, verbosity, error_call) {
  suspendInterrupts({
    start <- py_call("fetch_start", source, options, error_call = error_call)
    job <- start[["job"]]
    # Not waited for: a server that is silent is given up after half a minute.
    on.exit(py_call("fetch_cancel", job))
    allowInterrupts(wait_for_bytes(job, progress, verbosity, error_call))
    on.exit()
    py_call("fetch_result", job, error_call = error_call)
  })
}

wait_for_bytes <- function(job, progress, verbosity, error_call) {
  bar <- NULL
  progress <- shows_progress(progress)
  repeat {
    state <- py_call("fetch_wait", job, slice_s, error_call = error_call)
    if (verbosity >= 0) {
      for (text in state[["messages"]]) {
        cli::cli_inform("{text}")
      }
    }
    if (progress && state[["n_total"]] > 0) {
      bar <- bar %||%
        cli::cli_progress_bar(
          total = state[["n_total"]],
          format = paste(
            "{cli::pb_bar} {cli::pb_current_bytes}/{cli::pb_total_bytes}",
            "| {cli::pb_rate_bytes} | ETA {cli::pb_eta}"
          ),
          clear = TRUE,
          auto_terminate = FALSE
        )
      cli::cli_progress_update(set = state[["n_done"]], id = bar)
    }
    if (state[["done"]]) {
      break
    }
    Sys.sleep(0) # looks for Ctrl-C, which R by itself does rarely
  }
  if (!is.null(bar)) {
    cli::cli_progress_done(id = bar)
  }
}

# The file that is fastest here, found once.
optimized_path <- function(path, cache_dir, progress, verbosity, error_call) {
  found <- py_call("optimized_look", path, cache_dir, error_call = error_call)
  if (!is.null(found[["path"]])) {
    return(found[["path"]])
  }
  if (verbosity >= 0) {
    cli::cli_inform(
      "Looking for the fastest file of {.file {basename(path)}} on this computer, once."
    )
  }
  work <- found[["work"]]
  on.exit(py_call("optimized_drop", work))
  report <- run_optimize(path, work, list(max_kl = 0.01), progress, error_call)
  if (verbosity >= 0) {
    cli::cli_inform("{report[['verdict']]}")
  }
  py_call(
    "optimized_keep",
    path,
    work,
    report[["path"]],
    report[["verdict"]],
    cache_dir,
    error_call = error_call
  )
}

as_time <- function(seconds) {
  as.POSIXct(as.double(unlist(seconds)), origin = "1970-01-01", tz = "UTC")
}
