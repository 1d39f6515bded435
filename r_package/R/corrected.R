#' Corrected outcomes and replicate weights, for regressions by other packages
#'
#' @description
#' `corrected()` adds a column with the corrected outcome of each text: its prediction, plus (code -
#' prediction) / inclusion probability if people coded the text. Means of this column, and its
#' linear regressions on columns without labels, are those of [estimate()] by `"dsl"`, so that you
#' can use `lm()`, fixest, survey or marginaleffects. Single values may be below 0 or above 1.
#'
#' `replicate_weights()` returns the weights with which these packages compute standard errors: a
#' generalised bootstrap of the texts, as a sample of a population, and of the draw of the gold
#' sample, with its strata, inclusion probabilities, missing codes and waves. The covariance matrix
#' of an estimate is 4 / `n` times the sum over all replicates of (replicate - estimate)
#' (replicate - estimate)'. This is Fay's method with the factor 0.5. With `target = "texts"` the
#' replicates vary only with the draw of the gold sample, and belong to one `outcome`.
#'
#' @details
#' Standard errors by replicate weights do not allow for wrong codes that were not seen. If fewer
#' than five coded texts have a wrong label, use the intervals of [estimate()]. For a logit, and for
#' labels as covariates, use `estimate()` with a formula.
#'
#' @inheritParams estimate
#' @param outcome The quantity to correct: a label, several labels, or a number for each label, see
#'   [estimate()]. `NULL` uses the numbers if `estimate()` computes their mean, and otherwise all
#'   labels. In `replicate_weights()`, only for `target = "texts"`, and only one outcome.
#' @param weights Survey weights, which the replicates contain: a column, or a number of at least 0
#'   per text. The estimate itself needs them as well.
#' @param n Number of replicates. The random error of a standard error is about 100 / sqrt(2 n)
#'   percent: 4% for 300.
#' @param seed Seed of the replicates.
#' @returns `corrected()`: `coded` with the new column `corrected`, or with several labels
#'   `corrected_<label>` for each. Values are NA for texts without a label.
#'
#'   `replicate_weights()`: a matrix with a row for each text and a column for each replicate. The
#'   weights are 0 for texts without a label.
#' @references Beaumont, Patak, *On the generalized bootstrap for sample surveys with special
#'   attention to Poisson sampling*, International Statistical Review 80, 2012.
#' @seealso [estimate()]
#' @concept fixest
#' @concept survey
#' @concept marginaleffects
#' @export
#' @examplesIf llamaherd::llamaherd_available()
#' set.seed(1)
#' truth <- sample(c("against", "for"), 1000, replace = TRUE)
#' speeches <- data.frame(
#'   label = ifelse(runif(1000) < 0.2, "for", truth),
#'   age = rnorm(1000) + (truth == "for")
#' )
#' gold <- gold_sample(speeches, 200, label = label, seed = 1)
#' gold <- read_gold(data.frame(id = gold$ids, code = truth[gold$rows]), gold)
#'
#' data <- corrected(speeches, gold, "against")
#' fit <- lm(corrected ~ age, data)
#' weights <- replicate_weights(speeches, gold, n = 100)
#' changes <- apply(weights, 2, \(w) coef(lm(corrected ~ age, data, weights = w))) - coef(fit)
#' covariance <- 4 * tcrossprod(changes) / ncol(weights)
#' sqrt(diag(covariance))
corrected <- function(
  coded,
  gold,
  outcome = NULL,
  label = NULL,
  text = NULL,
  prob = NULL,
  several = NULL,
  predictions = NULL
) {
  read <- estimate_inputs(
    coded,
    rlang::enquos(gold = gold, label = label, text = text),
    several,
    prob,
    predictions,
    is_stated = !is.null(outcome)
  )
  arguments <- list(
    data = read$frame(NULL),
    gold = read$codes,
    outcome = outcome_given(outcome)
  )
  columns <- call_python("corrected", c(arguments, read$options))
  coded <- read$coded
  for (name in names(columns)) {
    if (name %in% names(coded)) {
      abort_argument("coded", paste("data without a column", name), coded)
    }
    coded[[name]] <- columns[[name]]
  }
  coded
}

#' @rdname corrected
#' @export
replicate_weights <- function(
  coded,
  gold,
  outcome = NULL,
  label = NULL,
  text = NULL,
  prob = NULL,
  target = c("population", "texts"),
  cluster = NULL,
  several = NULL,
  predictions = NULL,
  weights = NULL,
  n = 300L,
  seed = 0L
) {
  read <- estimate_inputs(
    coded,
    rlang::enquos(
      gold = gold,
      label = label,
      text = text,
      cluster = cluster,
      weights = weights
    ),
    several,
    prob,
    predictions,
    is_stated = TRUE
  )
  # Replicates of the population belong to any predictions.
  if (is.null(predictions) && !identical(target, "texts")) {
    read$options$predictions <- NULL
  }
  arguments <- py_arguments(
    c("n", "seed", "target"),
    coded = read$frame(read$cluster),
    gold = read$codes,
    outcome = outcome_given(outcome),
    cluster = read$cluster,
    weights = weights_given(read$weights, read$coded)
  )
  call_python("replicate_weights", c(read$options, arguments))
}
