#' Estimate the right codes where coders disagree
#'
#' @description
#' Estimates, from codes of at least three coders, the right label of each text and the error rates
#' of each coder. The method is the model of Dawid and Skene: each coder has a matrix of error
#' rates, and labels and matrices are estimated together by expectation maximization. With
#' `one_coin` each coder has a single probability of a right code, and all wrong codes are equally
#' probable.
#'
#' Coders' errors must be independent given the right label. Texts that are hard for everybody
#' violate this assumption; the estimated accuracy of coders is then too high.
#'
#' @param gold A `llamaherd_gold` with codes of at least three coders, and at least 20 texts with
#'   two or more codes. A coder need not code every text.
#' @param one_coin TRUE estimates a single probability per coder, which needs fewer codes.
#' @returns A `llamaherd_dawid_skene`, a list with
#'
#'   * `labels`: a data frame with one row per coded text: `id`; `label`, the most probable label;
#'     and the probability of each label in `p_<label>`.
#'   * `accuracy`: the estimated share of right codes of each coder.
#'   * `shares`: the unweighted share of each label among the coded texts.
#'   * `errors`: for each coder a matrix with a row for each right label and a column for each code.
#' @references Dawid, Skene, *Maximum Likelihood Estimation of Observer Error-Rates Using the EM
#'   Algorithm*, Applied Statistics 28, 1979. Zhang, Chen, Zhou, Jordan, *Spectral Methods Meet EM*,
#'   JMLR 17, 2016 (one-coin).
#' @seealso [estimate()], [agreement()]
#' @export
#' @examplesIf llamaherd::llamaherd_available()
#' set.seed(1)
#' data <- data.frame(id = 1:200, label = sample(c("for", "against"), 200, TRUE))
#' gold <- gold_sample(data, 100, label = label, id = id, seed = 1)
#' truth <- data$label[gold$rows]
#' flip <- function(rate) {
#'   wrong <- runif(100) < rate
#'   ifelse(wrong, ifelse(truth == "for", "against", "for"), truth)
#' }
#' codes <- data.frame(id = gold$ids, ann = flip(0.05), ben = flip(0.2), cy = flip(0.2))
#' gold <- read_gold(codes, gold)
#' dawid_skene(gold)$accuracy
dawid_skene <- function(gold, one_coin = FALSE) {
  error_call <- rlang::current_env()
  json <- check_gold(gold, error_call)
  found <- py_call("dawid_skene", json, py_value(one_coin), error_call = error_call)
  names <- as_text(found[["names"]])
  coders <- as_text(found[["coders"]])
  probs <- rlang::set_names(lapply(found[["probs"]], numbers_of), paste0("p_", names))
  labels <- c(
    list(id = as_text(found[["ids"]]), label = as_text(found[["labels"]])),
    probs
  )
  k <- length(names)
  matrices <- lapply(found[["errors"]], \(values) {
    matrix(numbers_of(values), k, k, dimnames = list(right = names, code = names))
  })
  structure(
    list(
      labels = new_frame(labels, length(labels$id)),
      accuracy = rlang::set_names(numbers_of(found[["accuracy"]]), coders),
      shares = rlang::set_names(numbers_of(found[["shares"]]), names),
      errors = rlang::set_names(matrices, coders),
      line = found[["line"]]
    ),
    class = "llamaherd_dawid_skene"
  )
}

#' @export
as.data.frame.llamaherd_dawid_skene <- function(x, ...) x$labels

#' @export
print.llamaherd_dawid_skene <- function(x, ...) {
  show_lines(x$line)
  invisible(x)
}
