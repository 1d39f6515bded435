#' Estimate shares, means and regressions, corrected for labelling errors
#'
#' @description
#' Errors in labels make intervals too short. Errors also bias shares and regression coefficients,
#' because errors are more frequent for some labels and groups than for others. `estimate()`
#' corrects estimates with the codes of a [gold_sample()] and returns them together with the naive
#' estimates.
#'
#' @section Methods:
#' * `"dsl"`, design-based supervised learning ([Egami et al.
#'   2023](https://arxiv.org/abs/2306.04746)): with \eqn{\psi} the terms of the estimating equation,
#'   \eqn{\hat D_i} a label, \eqn{D_i} a code and \eqn{\pi_i} the inclusion probability of a text
#'   (\eqn{R_i = 1} if it was drawn), it solves
#'
#'   \deqn{\sum_i \psi(\hat D_i; \theta) + \frac{R_i}{\pi_i} (\psi(D_i; \theta) - \psi(\hat D_i;
#'   \theta)) = 0}
#'
#'   DSL is valid for any pattern of label errors, whether the labels are the outcome or a covariate
#'   of the formula ([Egami et al. 2024](https://naokiegami.com/paper/dsl_ss.pdf)).
#' * `"ppi"`, prediction-powered inference with power tuning ([Angelopoulos et al.
#'   2023](https://arxiv.org/abs/2311.01453)): labels are weighted by `lam`, from 0 to 1, so that
#'   intervals are not wider than with codes alone. The method is for shares and means; a regression
#'   leaves it out, and a note reports this. The method assumes a simple sample; for other samples
#'   it is weighted by \eqn{1 / \pi_i}, and a note reports this.
#' * `"gold"`: codes alone, weighted by \eqn{1 / \pi_i}.
#' * `"naive"`: labels treated as correct.
#'
#' @section Few codes, few errors:
#' Intervals are t intervals that allow for skewness. The degrees of freedom are those of the codes
#' that determine an estimate. A warning reports a group with fewer than 30 codes, and a regression
#' with fewer than 30 codes for each of its coefficients, such as 90 for three. It is a warning, not
#' a limit: `"dsl"` and `"gold"` are computed with fewer.
#'
#' If few coded texts have a wrong label, the variance contains little information on errors among
#' the other texts. Each limit is then also computed as if one more wrong code of the greatest
#' weight had been seen, and the limit that is farther from the estimate is used. With five wrong
#' codes nothing is added. The rule is the same for shares, means, differences and regressions. A
#' warning names strata with fewer than 5 wrong labels, their share of the texts and their number of
#' codes.
#'
#' @param coded Return value of [annotate_texts()], or another data frame with a column of labels:
#'   all texts that the sample was drawn from.
#' @param gold A coded [gold_sample()]. With several coders the most frequent code is used. In a
#'   tie the code of the first of the tied coders is used, and a note reports this; let another
#'   coder decide these texts. For means and medians, numbers of several coders are averaged. In
#'   place of a sample, `gold` can be a vector of codes, or the name of a column of codes, with one
#'   code per row and NA for rows without a code. Such codes need the argument `prob`.
#' @param formula A regression formula with the column of labels on either side:
#'   `label == "negative" ~ party + age`, `votes ~ label`. The formula is evaluated on all rows,
#'   once with the labels and once with the codes in their place. Rows are selected afterwards, so
#'   `I(age - mean(age))` gives the same result as a column computed before the call. A term may
#'   only use a text's own label, not, for example, `mean(label)`. Terms such as `offset()`, `s()`,
#'   `Error()`, `x | group` and `.` cause an error.
#' @param outcome Only without a formula: the quantity to estimate. For a vector of labels, the
#'   share of each label is estimated. For a named vector with a number per label, such as
#'   `c(negative = -1, neutral = 0, positive = 1)`, the mean of these numbers is estimated. If the
#'   labels themselves are numbers, `outcome` may also be `"mean"` or `"median"`. `NULL` estimates
#'   the mean of a [number_scale()] and of numbers that have fractions or more than 20 distinct
#'   values, and otherwise the share of each label.
#' @param by Columns for estimates by group, and for differences from the first group (for a factor,
#'   its first level). Column names as strings, or unquoted as in `c(party, year)`.
#' @param model `"mean"`, `"ols"` or `"logit"`. `NULL` uses `"mean"` without a formula and `"ols"`
#'   with a formula.
#' @param methods Methods to compute, in the order of the result.
#' @param level Confidence level. Intervals of shares are limited to 0 and 1, intervals of
#'   differences of shares to -1 and 1 (Newcombe, *Statistics in Medicine* 17, 1998). Intervals
#'   of means on a declared scale are limited to the ends of the scale.
#' @param label,text Columns of labels and texts; `NULL` uses the columns that `coded` or `gold`
#'   records.
#' @param several TRUE if a text may have several labels, joined by `"; "`. A share is then the
#'   share of texts that have the label, alone or with others; shares do not sum to 1, and formulas
#'   use `has_label(label, "negative")`. `NULL` uses the value that `coded` or `gold` records.
#' @param prob For codes without a [gold_sample()]: `"simple"` if all texts had the same probability
#'   of being coded, or the probability of each text.
#' @param target Target of inference: `"population"` describes the population from which the texts
#'   were sampled, and `"texts"` describes only the texts themselves.
#' @param cluster A column of clusters, such as speakers, within which texts are not independent.
#'   `NULL`: if many texts are copies of others, equal texts are one cluster, and a note reports
#'   this.
#' @param predictions Predictions that the codes correct: `"labels"`, or `"probs"`, the
#'   probabilities of all labels (columns `p_<label>`). `NULL` uses `"probs"` after [recalibrate()]
#'   and `"labels"` otherwise. With probabilities the result also contains the mean widths of the
#'   intervals with labels and with probabilities.
#' @param weights Survey weights: a column, or a number of at least 0 per text. Estimates then
#'   describe the population that the weighted texts represent. Multiplying all weights by a number
#'   changes nothing.
#' @param simultaneous `NULL`: each single interval has the confidence `level`.
#'   `"bonferroni"`: all intervals of a method are simultaneous, so that together they have the
#'   confidence `level`, at least.
#' @param ... Must be empty. Arguments that were removed give an error that says what to use
#'   instead.
#' @returns A `llamaherd_estimates`. Converted to a data frame, the result has one row per estimate
#'   and method: `outcome`, `term`, `group`, `method`, `estimate`, `std_error`, `low`, `high`, `lam`
#'   (weight of the labels by `"ppi"`) and `df` (degrees of freedom of the interval). [coef()],
#'   [vcov()] and [confint()] return the values of one method, by default the first. Further
#'   elements are:
#'
#'   * `n_texts`, `n_gold`, `design`, `notes`.
#'   * `predictions`: predictions that the codes corrected: `"labels"`, `"probs"`, or
#'     `"recalibrated"` after [recalibrate()].
#'   * `widths`: a data frame of the mean widths of intervals by predictions and method; without
#'     rows if the predictions are labels.
#'   * `agreement`: a sentence on the agreement between several coders.
#'   * `label_check`, for `prob = "simple"`: a data frame with the counts of labels among the coded
#'     texts and the counts expected in a simple sample, with the attribute `p_value`.
#'
#'   The last line of the printed result says how many codes of a simple random sample would give
#'   equally short intervals without a model.
#' @seealso [gold_sample()], [gold_size()], [recalibrate()], [dawid_skene()]
#' @concept design-based supervised learning
#' @concept prediction-powered inference
#' @concept survey weights
#' @concept effective number of codes
#' @concept too short intervals
#' @export
#' @examplesIf llamaherd::llamaherd_available()
#' # 2,000 speeches; the model does not find half of the speeches of party B that are against.
#' set.seed(1)
#' party <- sample(c("A", "B"), 2000, replace = TRUE)
#' truth <- ifelse(runif(2000) < ifelse(party == "A", 0.3, 0.5), "against", "for")
#' missed <- truth == "against" & runif(2000) < ifelse(party == "A", 0.1, 0.5)
#' speeches <- data.frame(
#'   text = sprintf("Speech %d.", 1:2000),
#'   label = ifelse(missed, "for", truth),
#'   party = party
#' )
#'
#' gold <- gold_sample(speeches, 300, text = text, label = label, seed = 1)
#' gold <- read_gold(data.frame(id = gold$ids, code = truth[gold$rows]), gold)
#'
#' estimate(speeches, gold, outcome = "against", by = party)
#' fit <- estimate(speeches, gold, label == "against" ~ party, model = "logit")
#' coef(fit)
#' confint(fit)
#' as.data.frame(fit)
estimate <- function(
  coded,
  gold,
  formula = NULL,
  outcome = NULL,
  by = NULL,
  model = NULL,
  methods = c("dsl", "ppi", "gold", "naive"),
  level = 0.95,
  label = NULL,
  text = NULL,
  prob = NULL,
  target = c("population", "texts"),
  cluster = NULL,
  several = NULL,
  predictions = NULL,
  weights = NULL,
  simultaneous = NULL,
  ...
) {
  check_removed(
    rlang::enquos(...),
    c(
      removed_consensus,
      quantile = "{.code outcome = \"median\"} estimates the median, the only quantile."
    )
  )
  # Only for numbers on a scale does the record select another outcome.
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
    is_stated = !is.null(outcome) || !is.null(formula)
  )
  coded <- read$coded
  label <- read$options$label
  cluster <- read$cluster
  codes <- read$codes
  by <- columns_named(rlang::enquo(by), coded, "by")
  options <- c(
    read$options,
    py_arguments(
      c("level", "target", "simultaneous"),
      model = py_value(model) %||% if (is.null(formula)) "mean" else "ols",
      methods = py_values(
        if (is.atomic(methods)) unique(methods) else methods,
        "methods"
      ),
      weights = weights_given(read$weights, coded)
    )
  )
  if (is.null(formula)) {
    options$by <- if (!is.null(by)) as_py_list(by)
    options$outcome <- outcome_given(outcome)
    options$cluster <- cluster
    options$order <- levels_by(coded, by)
    uses <- c(by, cluster)
    if (is.null(cluster)) {
      uses <- c(uses, cluster_columns(coded, c(read$uses, uses)))
    }
    arguments <- list(coded = read$frame(uses), gold = codes)
    result <- call_python("estimate", c(arguments, options))
  } else {
    check_formula(formula, coded, label, options$several)
    if (!is.null(by) || !is.null(outcome)) {
      abort(
        "{.arg by} and {.arg outcome} cannot be combined with a formula: write them in it."
      )
    }
    options$used <- as_py_list(all.vars(formula))
    uses <- if (is.null(cluster)) {
      cluster_columns(coded, c(read$uses, all.vars(formula)))
    }
    frame <- read$frame(uses)
    arguments <- c(
      list(data = frame, gold = codes),
      options[c("label", "text", "several")]
    )
    one_form <- call_python("codes_in_one_form", arguments)
    is_sample <- identical(codes$.class, "gold")
    names <- names(read$probs)
    matrices <- formula_matrices(
      coded,
      formula,
      label,
      one_form,
      cluster,
      names,
      read$weights
    )
    arguments <- list(
      columns = frame,
      gold = if (is_sample) tagged("gold", content = one_form$gold) else one_form$gold,
      matrices = tagged("frame", content = matrices),
      options = options
    )
    result <- call_python("estimate_regression", arguments)
    # A saved object would contain all variables of the function that wrote the formula.
    environment(formula) <- globalenv()
  }
  result <- with_element(result, "formula", formula)
  document_event(
    "estimate",
    result[c("model", "methods", "level", "target", "n_texts", "n_gold", "design")],
    formula = if (!is.null(formula)) deparse1(formula),
    input_hash = lines_sha256(coded[[label]]),
    gold_hash = lines_sha256(unlist(codes$content %||% codes))
  )
  result
}

#' Coefficients, covariances and intervals of estimates
#'
#' @param object Return value of [estimate()].
#' @param parm Names or indices of coefficients. If missing, all coefficients are returned.
#' @param level Confidence level. `NULL` uses the level of the estimates.
#' @param methods One of the methods; `method = ` is also accepted. `NULL` uses the first method.
#' @param outcome For `vcov()` of the shares of several labels: the label whose covariances are
#'   returned. `NULL` returns a matrix of all shares; covariances between different labels are NA.
#' @param ... Must be empty.
#' @returns `coef()`: a named vector. `confint()`: a matrix with a row for each coefficient.
#'   `vcov()`: a matrix; it omits the differences between groups, which follow from the other rows.
#'   `nobs()`: the number of texts that the method uses: for `"gold"` the texts with a code, and for
#'   the other methods all texts.
#' @concept tidy
#' @name estimate-methods
#' @examplesIf llamaherd::llamaherd_available()
#' data <- data.frame(label = rep(c("a", "b"), c(60, 40)), code = NA)
#' data$code[1:100 %% 3 == 0] <- rep(c("a", "b"), c(20, 13))
#' fit <- estimate(data, "code", prob = "simple", outcome = "a")
#' coef(fit)
#' confint(fit, level = 0.9)
#' vcov(fit, method = "naive")
#' summary(fit)
NULL
