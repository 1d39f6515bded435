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
    the$hardware <- new_hardware(py_call("hardware_profile"))
  }
  the$hardware
}

new_hardware <- function(value) {
  gpu <- if (length(value[["gpus"]]) > 0) value[["gpus"]][[1]]
  sizes <- lapply(value[["sizes"]], unlist)
  structure(
    list(
      os = value[["os"]],
      release = value[["release"]],
      cpu = value[["cpu"]],
      cpu_cores = as.integer(value[["cpu_cores"]]),
      cpu_features = as_text(value[["cpu_features"]]),
      ram_total = value[["memory_bytes"]],
      ram_available = value[["available_bytes"]],
      gpu = list(
        name = gpu[["name"]] %||% NA_character_,
        vram_bytes = as.double(gpu[["memory_bytes"]] %||% NA),
        cores = NA_integer_,
        source = gpu[["source"]] %||% "undetected"
      ),
      uses_gpu = value[["uses_gpu"]],
      bandwidth_bytes_per_s = value[["bandwidth_bytes_per_s"]],
      flops = value[["flops"]],
      detected_at = Sys.time(),
      sizes = as.data.frame(sizes),
      text = value[["text"]]
    ),
    class = "llamaherd_hardware"
  )
}

#' @export
format.llamaherd_hardware <- function(x, ...) strsplit(x$text, "\n", fixed = TRUE)[[1]]
