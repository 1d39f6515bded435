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
  models <- from_python(py_call("cached_models", cache_dir))
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
    abort_argument("min_size_mb", "a number", min_size_mb, rlang::current_env())
  }
  check_flag(verify)
  found <- from_python(py_call("ollama_models"))
  models <- data.frame(
    name = found$name,
    path = r_path(found$path),
    size_mb = found$size_bytes / 1e6,
    size_gb = found$size_bytes / 1e9,
    found[c("size_bytes", "sha256", "modified")],
    source = rep("ollama", nrow(found)),
    tag = sub("^.*:", "", found$name),
    model = sub(":[^:]*$", "", found$name)
  )
  models <- models[models$size_mb >= min_size_mb, , drop = FALSE]
  row.names(models) <- NULL
  models
}

#' @rdname list_cached_models
#' @export
get_model_cache_dir <- function() r_path(py_call("cache_dir"))

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
  error_call <- rlang::current_env()
  check_given(token)
  if (!is_token(token)) {
    # The message never shows the value.
    abort(
      c(
        "{.arg token} must be an access token of the hub: one word, which is not shown here.",
        i = "Create one at {.url https://huggingface.co/settings/tokens}."
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
    check_folder(renviron_path, error_call)
    lines <- character()
    if (file_exists(renviron_path)) {
      lines <- readLines(native_path(renviron_path), warn = FALSE)
    }
    lines <- c(lines[!startsWith(lines, "HF_TOKEN=")], paste0("HF_TOKEN=", token))
    if (!replace_lines(renviron_path, lines)) {
      abort_unwritten(renviron_path, "The file is as it was before.", error_call)
    }
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
