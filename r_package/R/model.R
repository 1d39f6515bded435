#' Load a model
#'
#' Loads a model from a GGUF file, and downloads the file if necessary.
#'
#' @section Names of models:
#' * A path; `~` is expanded.
#' * `"hf:owner/repo"`, a repository of the Hugging Face hub, optionally with a file
#'   (`"hf:owner/repo/file.gguf"`) or a quantization (`"hf:owner/repo:Q4_K_M"`). The default is
#'   `Q8_0` if this file has at most 1.5 GB. Otherwise it is `Q4_K_M`, or the next best file if
#'   `Q4_K_M` does not fit into memory. A message names the file.
#' * A URL, `"https://..."`.
#' * `"ollama:llama3.2"`, a model that Ollama has downloaded.
#' * The name of a file in the cache, or a part of the name that is unique.
#'
#' Files in the cache are used without network access. An interrupted download is continued by the
#' next call. Files of the hub are compared with the SHA-256 that the hub states. A model that does
#' not fit into memory is refused before it is downloaded, with an error that names a file that
#' fits. The environment variable `HF_HUB_OFFLINE=1` prevents downloads from the hub.
#'
#' @param model_path Model; see below.
#' @param cache_dir Folder for downloads. NULL uses [get_model_cache_dir()].
#' @param n_gpu_layers Number of layers in GPU memory. Negative values put all layers into GPU
#'   memory, and so does `"auto"` on a computer with a usable GPU. Without a GPU a warning reports
#'   that the CPU is used.
#' @param use_mmap TRUE maps the file into memory instead of reading it.
#' @param use_mlock TRUE prevents the model from being swapped out.
#' @param show_progress TRUE shows the progress of a download.
#' @param force_redownload TRUE downloads the file even if it is in the cache.
#' @param verify_integrity Ignored, for compatibility: truncated and damaged files are always
#'   refused.
#' @param check_memory TRUE refuses a model that, with its adapters, is larger than the available
#'   memory. The limit is GPU memory if all layers are in GPU memory, and the sum of GPU and host
#'   memory if only some layers are.
#' @param hf_token Access token of the hub, for restricted models. NULL uses the token of
#'   [set_hf_token()] or the environment variable `HF_TOKEN`.
#' @param verbosity Negative values show errors only; 2 or more adds a line about the model.
#' @param lora LoRA adapters for the model, as GGUF files: their paths, or scales named by paths, as
#'   in `c("a.gguf" = 0.5)`. The effects of several adapters are added. NULL uses no adapter.
#' @param optimize TRUE loads the file that [model_optimize()] finds fastest on this computer. The
#'   search takes minutes for a model of some GB; its result is kept in the cache.
#' @param split_mode How several GPUs are used: `"layer"` assigns a part of the layers to each GPU,
#'   `"row"` also splits matrices, `"none"` uses only `main_gpu`.
#' @param main_gpu For `split_mode = "none"`: index of the GPU, from 0.
#' @param tensor_split Share of the model on each GPU, as numbers in any unit. NULL uses shares in
#'   proportion to the free memory of the GPUs.
#' @returns A `llamaherd_model`. `close()` frees the memory of the model; R also frees this memory
#'   when no variable refers to the model.
#' @seealso [context_create()], [model_metadata()], [hardware_profile()] for models that this
#'   computer can run, [list_cached_models()]
#' @concept GGUF
#' @concept GPU
#' @concept LoRA
#' @concept Hugging Face
#' @export
#' @examplesIf !is.null(llamaherd_example_model())
#' model <- model_load(llamaherd_example_model())
#' model
#' close(model)
#'
#' @examples
#' \dontrun{
#' # These download something, or need files of yours:
#' model_load("hf:unsloth/Llama-3.2-3B-Instruct-GGUF:Q4_K_M")
#' model_load("ollama:llama3.2")
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
  lora = NULL,
  optimize = FALSE,
  split_mode = "layer",
  main_gpu = 0L,
  tensor_split = NULL
) {
  model_path <- check_string(model_path)
  cache_dir <- expand_path(check_string(cache_dir, null = TRUE))
  options <- c(
    py_arguments("use_mmap", "use_mlock", "split_mode", "main_gpu"),
    list(
      n_gpu_layers = gpu_layers(n_gpu_layers),
      check_memory = check_flag(check_memory)
    )
  )
  if (!is.null(tensor_split)) {
    options$tensor_split <- py_values(tensor_split)
  }
  options$lora <- lora_for_python(lora)
  verbosity <- check_whole(verbosity)
  optimize <- check_flag(optimize)
  fetching <- fetch_options(
    cache_dir,
    py_value(force_redownload),
    check_memory && options$n_gpu_layers == 0L,
    check_string(hf_token, null = TRUE)
  )
  progress <- check_flag(show_progress) && verbosity >= 0
  path <- find_model(model_path, fetching, progress, verbosity)
  if (optimize) {
    path <- optimized_path(path, cache_dir, progress, verbosity)
  }

  value <- quietly(verbosity < 0, py_call("model_load", path, options))
  model <- fixed(c(value, list(path = path)), class = "llamaherd_model")
  document_event(
    "model_load",
    source = log_source(model_path),
    path = log_path(path),
    size_bytes = file.size(native_path(path)),
    sha256 = py_call("file_sha256", path),
    description = value[["description"]],
    settings = options[setdiff(names(options), "lora")],
    lora = lapply(options$lora, \(one) {
      list(
        path = log_path(one[[1]]),
        sha256 = py_call("file_sha256", one[[1]]),
        scale = one[[2]]
      )
    })
  )
  if (verbosity >= 2) {
    cli::cli_inform(format(model))
  }
  model
}

# Accepts "auto" and numbers.
gpu_layers <- function(n_gpu_layers) {
  if (identical(n_gpu_layers, "auto")) {
    return(if (py_call("supports_gpu")) -1L else 0L)
  }
  check_whole(n_gpu_layers)
}

# Returns pairs of path and scale for Python; NULL if there are no adapters.
lora_for_python <- function(x) {
  if (length(x) == 0) {
    return(NULL)
  }
  items <- if (is.vector(x)) as.list(x) else list(x)
  pairs <- Map(
    \(item, name) {
      if (is.character(item)) {
        list(py_path(item, "lora"), 1)
      } else {
        list(
          py_path(name, "lora"),
          if (is.numeric(item)) as.double(item) else describe(item)
        )
      }
    },
    items,
    rlang::names2(items)
  )
  unname(pairs)
}

quietly <- function(quiet, expr) {
  if (quiet) suppressWarnings(expr, classes = "llamaherd_warning") else expr
}

#' Metadata of a model
#'
#' Returns all keys and values of the model's GGUF file.
#'
#' @param model A `llamaherd_model` from [model_load()].
#' @returns A named character vector with one element per key; numbers are text.
#' @export
#' @examplesIf !is.null(llamaherd_example_model())
#' model <- model_load(llamaherd_example_model())
#' model_metadata(model)[["general.architecture"]]
model_metadata <- function(model) {
  object <- check_model(model)
  py_call("model_metadata", object)
}

#' @export
format.llamaherd_model <- function(x, ...) {
  problem <- object_problem(x)
  c(
    paste0("<llamaherd_model> ", base_name(x$path)),
    sprintf(
      "%s, trained for %s tokens of context",
      x$description,
      big(x$n_ctx_train)
    ),
    if (!is.null(problem)) paste("It", problem)
  )
}

#' @export
close.llamaherd_model <- function(con, ...) {
  close_object(con)
}

#' Estimate which models this computer can run
#'
#' Reports the processor and memory, the sizes of models that fit, and their approximate speed.
#'
#' The speeds are rough estimates, based on memory bandwidth and arithmetic speed. Bandwidth and
#' arithmetic speed are measured in about a second; the best of three rounds is used. Memory
#' bandwidth limits the speed of a single answer, because each token reads all weights. Arithmetic
#' speed limits the processing of prompts, and of many answers that are generated together. Real
#' speeds are often half or double the estimate, because the measurement multiplies float32
#' matrices, while models with quantized weights use other kernels. If other programs run during the
#' measurement or later, real speeds differ by up to a factor of four. [model_optimize()] measures
#' the speed of a given model.
#'
#' @param refresh TRUE measures again; FALSE measures once per session.
#' @returns A list of class `llamaherd_hardware`, which prints as a table:
#'
#'   * `os`, `release`: operating system and its version.
#'   * `cpu`, `cpu_cores`, `cpu_features`: the processor.
#'   * `ram_total`, `ram_available`: memory in bytes.
#'   * `gpu`: a list with `name`, `vram_bytes`, `cores` and `source` (`"libllama"` or
#'     `"nvidia-smi"`, the library or program that lists the GPU). Without a GPU, `source` is
#'     `"undetected"` and the other elements are NA. `uses_gpu`: TRUE if models can be loaded into
#'     the memory of the GPU.
#'   * `bandwidth_bytes_per_s`: memory bandwidth. `flops`: float32 operations per second.
#'   * `detected_at`: time of the measurement.
#'   * `sizes`: a data frame with `billions` (billions of weights), `quantization`, `size_bytes`,
#'     `fits`, `decode_per_s` (tokens per second of one answer) and `prefill_per_s` (tokens per
#'     second of prompts, or of many answers together).
#' @seealso [model_load()]
#' @export
#' @examplesIf llamaherd_available()
#' hardware_profile()
hardware_profile <- function(refresh = FALSE) {
  if (check_flag(refresh) || is.null(the$hardware)) {
    the$hardware <- py_call("hardware_profile")
  }
  the$hardware
}
