#' Number of texts to code
#'
#' @description
#' Computes the size of a simple gold-standard sample for a confidence interval of a given width:
#' with human codes alone, and with a model's labels corrected by the codes.
#'
#' The sizes are those with which the interval of [estimate()] is expected to have the width: a t
#' interval that allows for skewness and, if few errors are expected, for one unseen error. For many
#' errors they approach \eqn{n = 1 / ((width^2 / z^2 - p (1 - p) / N) / V + 1 / N)}, with \eqn{N}
#' the number of all texts and \eqn{V} the part of the variance that depends on the size of the
#' sample. For `target = "texts"` the term \eqn{p (1 - p) / N} is not subtracted. For codes alone
#' \eqn{V = p (1 - p)}, with \eqn{p} the share; for DSL \eqn{V} is the variance of code minus label,
#' \eqn{2 (1 - \kappa) p (1 - p)}; for PPI++ it is \eqn{(1 - \kappa^2) p (1 - p)}.
#'
#' With `compare` the function computes how many texts are needed to distinguish two codebooks whose
#' accuracies differ by `compare`: \eqn{n = (z_a \sqrt{s} + z_b \sqrt{s - d^2})^2 / d^2}, with
#' \eqn{d} the difference, \eqn{s} the share `differ`, and normal quantiles of confidence and power
#' (Connett, Smith and McHugh 1987). The part `select` of [gold_split()] needs \eqn{n} texts.
#'
#' For codebooks whose codes are numbers, `measure` is `"mae"`, and `compare` is a
#' difference of mean absolute errors in units of the codes. The number of texts is then
#' \eqn{n = (z_a + z_b)^2 \sigma^2 / d^2 + z_a^2 / 2} (Guenther 1981). In this formula,
#' \eqn{\sigma} is the standard deviation, over texts, of the difference between the absolute
#' errors of the two codebooks. The argument `spread` sets \eqn{\sigma}; without it, \eqn{\sigma}
#' is computed from `error` and `correlation` for normally distributed errors.
#'
#' @param width Half the width of the interval: 0.05 for plus or minus 5 percentage points.
#' @param share Expected share; 0.5 is the worst case. To estimate an accuracy, set the expected
#'   accuracy.
#' @param level Confidence level.
#' @param accuracy Expected share of texts on which model and people agree whether the label
#'   applies. You can give `kappa` instead.
#' @param kappa Expected Cohen's kappa of model and people; see `accuracy`.
#' @param population Number of all texts; `NULL` for an infinite population.
#' @param target Target of inference, see [estimate()]: the population from which the texts were
#'   sampled (`"population"`), or the `"texts"` themselves, which needs fewer codes.
#' @param compare Instead of `width`: difference between the accuracies of two codebooks that the
#'   comparison should detect.
#' @param differ With `compare`: share of texts that exactly one of the two codebooks labels
#'   correctly. The share `differ` is small for codebooks that differ in a few words, and larger for
#'   different models. The element `pairs` of [compare_codebooks()] contains the share `differ` for
#'   codebooks that you have compared.
#' @param power With `compare`: probability that the comparison detects the difference.
#' @param candidates With `compare`: number of codebooks. All pairs of codebooks are compared
#'   (Bonferroni).
#' @param measure With `compare`: `"accuracy"`; `"mae"` for mean absolute errors of numbers.
#' @param error For numbers: expected root mean squared error of the codebooks.
#' @param correlation For numbers: expected correlation of the errors of two codebooks. The
#'   correlation is high for codebooks that differ in a few words.
#' @param spread For numbers, instead of `error` and `correlation`: standard deviation of the
#'   differences of the absolute errors, for example from a pilot study.
#' @returns A `llamaherd_gold_size`, a list with the numbers of texts that people must code: `gold`
#'   with codes alone, `dsl` and `ppi` with a model's labels. `dsl` and `ppi` are `NA` if neither
#'   `accuracy` nor `kappa` is given. The element `kappa` is the kappa that was used. With
#'   `compare`, `gold` is the number of coded texts that the comparison needs.
#' @references Connett, Smith, McHugh, *Sample size and power for pair-matched case-control
#'   studies*, Stat. Med. 6, 1987. Guenther, *Sample size formulas for normal theory t tests*, The
#'   American Statistician 35, 1981.
#' @seealso [gold_sample()], [gold_split()]
#' @concept how many texts
#' @concept sample size
#' @export
#' @examplesIf llamaherd::llamaherd_available()
#' gold_size(0.05)
#' gold_size(0.03, share = 0.2, accuracy = 0.9, population = 20000)
#' gold_size(compare = 0.05)
#' gold_size(compare = 0.1, differ = 0.3, candidates = 5)
#' gold_size(compare = 0.2, measure = "mae", error = 1.5, correlation = 0.7)
gold_size <- function(
  width = NULL,
  share = 0.5,
  level = 0.95,
  accuracy = NULL,
  kappa = NULL,
  population = NULL,
  target = c("population", "texts"),
  compare = NULL,
  differ = 0.2,
  power = 0.8,
  candidates = 2L,
  measure = c("accuracy", "mae"),
  error = NULL,
  correlation = 0.5,
  spread = NULL
) {
  names <- setdiff(names(formals()), "width")
  width <- if (!is.null(width)) list(width = py_value(width))
  call_python("gold_size", c(width, py_arguments(names)))
}
