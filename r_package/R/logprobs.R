# The argument `logprobs` of generate(), and its results.

# Returns a data frame per prompt, NULL for a prompt without an answer; with the column `top` if
# alternatives were requested.
logprob_frames <- function(parts, k, model) {
  ids <- unique(as.integer(unlist(lapply(parts, `[`, c("tokens", "top_tokens")))))
  texts <- py_call("detokenize", model$python, lapply(ids, list), FALSE, TRUE)
  texts <- as_text(texts)
  frame <- function(tokens, logprobs, ...) {
    id <- as.integer(unlist(tokens))
    columns <- list(
      token = texts[match(id, ids)],
      id = id,
      logprob = as.double(unlist(logprobs)),
      ...
    )
    new_frame(columns, length(id))
  }
  lapply(parts, function(part) {
    if (is.null(part)) {
      return(NULL)
    }
    n_top <- as.integer(unlist(part[["n_top"]]))
    top <- frame(part[["top_tokens"]], part[["top_logprobs"]])
    top <- if (k > 0) {
      list(top = Map(\(n, end) slice(top, end - n, n), n_top, cumsum(n_top)))
    }
    rlang::exec(frame, part[["tokens"]], part[["logprobs"]], !!!top)
  })
}
