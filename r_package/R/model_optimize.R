#' Make a model faster on this computer
#'
#' The speed of a model depends on the type of its weights and on the processor. `model_optimize()`
#' writes the model in several types. For each type the function measures how much the answers
#' change, and the speed of the new and the original file in alternating runs. The function keeps
#' the fastest file whose answers differ little enough from the answers of the original (see
#' `max_kl`), and removes the other new files. The original file is never changed, and no file is
#' overwritten.
#'
#' Speed is measured on a prompt of 512 tokens and on 8 answers generated together. Files are ranked
#' by the geometric mean of the two speedups; a speedup below 1.05 is ignored. The change of answers
#' is the Kullback-Leibler divergence between the predictions of the two files for each token of a
#' text, as in llama.cpp's perplexity program.
#'
#' Ctrl-C ends the function and leaves no file. If a file is being written, it is finished first,
#' because llama.cpp cannot be interrupted; this takes some seconds per GB.
#'
#' @param path Path of a GGUF file; `~` is expanded.
#' @param out Folder for the new file. `NULL` uses the folder of `path`. The file's name is
#'   `<name>.<type>.llamaherd.gguf`.
#' @param types Types to try, out of `"F16"`, `"BF16"`, `"Q8_0"`, `"Q6_K"`, `"Q5_1"`,
#'   `"Q5_0"`, `"Q5_K_M"`, `"Q5_K_S"`, `"Q4_1"`, `"Q4_0"`, `"Q4_K_M"`, `"Q4_K_S"` and
#'   `"IQ4_NL"`. `NULL` tries `"Q8_0"`, `"Q4_0"` and `"Q4_K_M"`, except the type of the model.
#' @param max_kl Largest mean divergence, in nats, that the kept file may have.
#' @param text Sample text for comparing the files, of at least 64 tokens; up to 4096 tokens are
#'   used. The sample should be similar to your texts. `NULL` uses a text from a novel.
#' @param n_threads Number of threads. `NULL` uses the number of physical cores.
#' @param progress
#'   TRUE shows the progress.
#' @returns A data frame of class `llamaherd_optimize` with one row per file, the original first,
#'   and these columns:
#'
#'   * `type`, `size_bytes`: type of the weights, and size of the file.
#'   * `prefill_tokens_per_s`, `decode_tokens_per_s`: speed on a prompt and on answers.
#'   * `speedup`: geometric mean of the speedups of prefill and decoding, each relative to the
#'     original.
#'   * `perplexity`: perplexity of the sample text.
#'   * `mean_kl`, `p99_kl`: mean and 99th percentile of the divergence from the original, in nats.
#'   * `same_top`: share of predictions with the same most likely token as the original.
#'   * `same_answers`: share of greedy answers that equal the answers of the original.
#'
#'   The attribute `path` is the path of the file to use, and the attribute `chosen` is the type of
#'   this file. If no file was better, `path` is the original and `chosen` is `NA`.
#' @seealso [model_load()]
#' @export
#' @examples
#' \dontrun{
#' report <- model_optimize("~/models/SmolLM2-135M-Instruct.Q4_1.gguf")
#' report
#' model <- model_load(attr(report, "path"))
#' }
model_optimize <- function(
  path,
  out = NULL,
  types = NULL,
  max_kl = 0.01,
  text = NULL,
  n_threads = NULL,
  progress = interactive()
) {
  path <- py_path(path)
  options <- py_arguments("max_kl", if (!is.null(n_threads)) "n_threads")
  if (!is.null(types)) {
    options$types <- py_values(types)
  }
  if (!is.null(text)) {
    options$text <- paste(check_text(text), collapse = "\n")
  }
  report <- wait_for_result(
    py_call("start_optimize", path, py_path(out), !!!options),
    "Interrupted: no file was made.",
    bar = new_bar(progress)
  )
  attr(report, "path") <- r_path(attr(report, "path"))
  report
}

#' @export
print.llamaherd_optimize <- function(x, ...) {
  lines <- attr(x, "page")
  if (is.null(lines) || length(lines) != nrow(x) + 2L) {
    return(NextMethod()) # part of a table
  }
  is_chosen <- c(FALSE, x$type %in% attr(x, "chosen"), FALSE)
  lines[[1]] <- cli::style_bold(lines[[1]])
  lines[is_chosen] <- cli::col_green(lines[is_chosen])
  cli::cat_line(lines)
  invisible(x)
}
