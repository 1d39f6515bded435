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
#' @param verify_integrity Ignored, for compatibility: the file is always compared with the SHA-256
#'   that the hub states.
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
  model_url <- check_string(model_url)
  output_path <- expand_path(check_string(output_path, null = TRUE))
  progress <- check_flag(show_progress)
  options <- fetch_options(
    py_path(cache_dir),
    py_value(force_redownload),
    py_value(check_memory),
    check_string(hf_token, null = TRUE)
  )
  path <- find_model(model_url, options, progress, 1L)
  if (!is.null(output_path)) {
    path <- r_path(py_call("copy_whole", path, output_path))
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

# Returns the path of a model's file, after downloading it if necessary. Ctrl-C ends a download and
# keeps its bytes for the next call. R does not wait for the job to end, because the job waits up to
# half a minute for a server that does not respond.
find_model <- function(source, options, progress, verbosity) {
  path <- expand_path(source)
  if (file_exists(path) && !dir_exists(path)) {
    return(path)
  }
  started <- py_call("fetch_start", path, options)
  r_path(wait_for_result(
    started,
    "Interrupted: the same call continues the download.",
    bar = new_bar(progress, verbosity),
    keep = FALSE,
    verbosity = verbosity
  ))
}

# Returns the fastest file for this computer. The search for the fastest file runs only once.
optimized_path <- function(path, cache_dir, progress, verbosity) {
  if (verbosity >= 0) {
    cli::cli_inform(
      "Looking for the fastest file of {.file {base_name(path)}} on this computer."
    )
  }
  arguments <- list(source = path, cache_dir = cache_dir)
  ended <- "Interrupted: no file was made."
  best <- call_python("optimized_model", arguments, progress, verbosity, ended = ended)
  if (verbosity >= 0 && best != path) {
    cli::cli_inform("Using {.file {base_name(best)}}.")
  }
  r_path(best)
}

#' List models on this computer
#'
#' `list_cached_models()` lists the model files in the cache: files that [model_load()] downloaded
#' or that you copied into it, and files that other programs downloaded from the Hugging Face hub.
#' `list_ollama_models()` lists the models of Ollama; Ollama need not run. `get_model_cache_dir()`
#' returns the folder of the cache; the environment variable `LLAMAHERD_CACHE_DIR` changes it.
#'
#' @param cache_dir Folder to search. NULL searches the default folders.
#' @param min_size_mb Minimum size of an Ollama model, in MB.
#' @param verify Ignored, for compatibility: files that are not GGUF files are never listed.
#' @returns `list_cached_models()`: a data frame with one row per file, the newest first: `name`,
#'   `path`, `size_bytes`, `modified` and `source`, such as `"hf:owner/repo"`, NA for files that you
#'   copied into the cache. Without files the data frame has no rows.
#'
#'   `list_ollama_models()`: a data frame with `name`, `path`, `size_mb`, `size_gb`, `size_bytes`,
#'   `sha256`, `modified`, `source`, `tag` and `model`; use `name` as in
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
  models <- py_call("list_cached_models", cache_dir)
  models$path <- r_path(models$path)
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
  if (!is.numeric(min_size_mb) || length(min_size_mb) != 1) {
    abort_argument("min_size_mb", "a number", min_size_mb)
  }
  check_flag(verify)
  models <- py_call("list_ollama_models")
  models <- data.frame(
    name = models$name,
    path = r_path(models$path),
    size_mb = models$size_bytes / 1e6,
    size_gb = models$size_bytes / 1e9,
    models[c("size_bytes", "sha256", "modified")],
    source = rep("ollama", nrow(models)),
    tag = sub("^.*:", "", models$name),
    model = sub(":[^:]*$", "", models$name)
  )
  models <- models[models$size_mb >= min_size_mb, , drop = FALSE]
  row.names(models) <- NULL
  models
}

#' @rdname list_cached_models
#' @export
get_model_cache_dir <- function() r_path(py_call("model_cache_dir"))

#' Access token of the Hugging Face hub
#'
#' Some models require that you accept their terms on the hub, which recognizes you by an access
#' token. Create one at <https://huggingface.co/settings/tokens>. The token is sent only to the hub.
#' The token appears in no message and, unless you set `persist = TRUE`, in no file.
#'
#' @param token The token. The function stores the token in the environment variable `HF_TOKEN` of
#'   this session.
#' @param persist TRUE also writes the token, as plain text, to `renviron_path`.
#' @param renviron_path With `persist = TRUE`: path of the file, such as `"~/.Renviron"`.
#' @returns The token, invisibly.
#' @seealso [model_load()]
#' @export
#' @examples
#' old <- Sys.getenv("HF_TOKEN")
#' set_hf_token("hf_example")
#' Sys.setenv(HF_TOKEN = old)
set_hf_token <- function(token, persist = FALSE, renviron_path = NULL) {
  check_given(token)
  if (!is_token(token)) {
    # The message never shows the value.
    abort(c(
      "{.arg token} must be an access token of the hub: one word, which is not shown here.",
      i = "Create one at {.url https://huggingface.co/settings/tokens}."
    ))
  }
  token <- trimws(token)
  renviron_path <- expand_path(check_string(renviron_path, null = TRUE))
  if (check_flag(persist)) {
    if (is.null(renviron_path)) {
      abort(c(
        "{.code persist = TRUE} needs {.arg renviron_path}, the file to write the token to.",
        i = "R reads {.path ~/.Renviron} when it starts."
      ))
    }
    lines <- character()
    if (file_exists(renviron_path)) {
      lines <- readLines(native_path(renviron_path), warn = FALSE)
    }
    lines <- c(lines[!startsWith(lines, "HF_TOKEN=")], paste0("HF_TOKEN=", token))
    py_call("replace_lines", renviron_path, as_py_list(lines))
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

#' Recommend models by the memory that they need
#'
#' Lists models from the smallest to the largest. For each model, the table shows whether it fits
#' into memory, the results that this project measured with it, and results that others published
#' for models of its size. No model is the best in every task: measure the model that you use with
#' [validate()].
#'
#' @param memory_gb Memory in GB; `fits` marks the models that fit into this memory. NULL uses the
#'   memory that is available now.
#' @returns A data frame with one row per model:
#'
#'   * `source`: source of the model, for [model_load()].
#'   * `memory_gb`: memory of a computer that runs the model and other programs, in GB; 0
#'     if the model runs on any computer.
#'   * `size_bytes`: approximate size of the file.
#'   * `fits`: TRUE if the model fits with a context into the memory that the argument `memory_gb`
#'     gives.
#'   * `measured`: figures that this project measured; `"not measured"` if there are none.
#'   * `published`: figures that others published for models of this size, but not for this file;
#'     `""` if there are none.
#' @seealso [hardware_profile()], [model_load()]
#' @export
#' @examplesIf llamaherd_available()
#' llamaherd_models()[c("source", "memory_gb", "fits")]
#' subset(llamaherd_models(memory_gb = 16), fits)$source
llamaherd_models <- function(memory_gb = NULL) {
  py_call("recommended_models", py_value(memory_gb))
}

#' A small model for examples
#'
#' Finds the file of SmolLM2-135M, an instruction-tuned model of 92 MB: first by the environment
#' variable `LLAMAHERD_TEST_SMOLLM2`, then in the cache. The examples of this package run only if
#' this function finds the model. The function downloads nothing and does not start Python.
#'
#' @returns Path of the file. NULL if the file or the Python package does not exist.
#' @seealso [list_cached_models()] for all models on this computer
#' @export
#' @examples
#' llamaherd_example_model()
llamaherd_example_model <- function() {
  cache <- Sys.getenv("LLAMAHERD_CACHE_DIR")
  if (!nzchar(cache)) {
    base <- Sys.getenv("XDG_CACHE_HOME", "~/.cache")
    cache <- file.path(base, "llamaherd", "models")
  }
  files <- list.files(
    path.expand(cache),
    "^SmolLM2-135M-Instruct.*[.]gguf$",
    recursive = TRUE,
    full.names = TRUE
  )
  # Files of model_optimize() are not used.
  files <- files[!grepl("llamaherd[.]gguf$", files)]
  paths <- c(Sys.getenv("LLAMAHERD_TEST_SMOLLM2"), files)
  paths <- paths[file.exists(paths)]
  if (length(paths) == 0 || !llamaherd_available()) NULL else paths[[1]]
}
