# Formulas of estimate(): computes model matrices with the labels, and again with the codes.

# Function for formulas that returns 1 if a text with several labels has a given label, else 0.
has_label <- function(label, name) {
  labels <- strsplit(as.character(label), ";", fixed = TRUE)
  ifelse(is.na(label), NA_real_, vapply(labels, \(x) name %in% trimws(x), 0))
}

check_formula <- function(formula, coded, label, several) {
  if (!rlang::is_formula(formula) || length(formula) != 3) {
    must <- "a formula with two sides, such as label == \"x\" ~ party"
    abort_argument("formula", must, formula)
  }
  check_terms(formula, as.data.frame(coded))
  check_formula_variables(formula, coded)
  if (!label %in% all.vars(formula)) {
    must <- sprintf("a formula that uses the column of labels, `%s`", label)
    abort_argument("formula", must, formula)
  }
  if (several && label %in% all.vars(without_has_label(formula, label))) {
    must <- sprintf(
      "one with has_label(), such as has_label(%s, \"x\") ~ age: a text may have several labels",
      label
    )
    abort_argument("formula", must, formula)
  }
}

# Requires that each variable is a column, or a variable where the formula was written.
check_formula_variables <- function(formula, coded) {
  is_known <- function(name) {
    value <- get0(name, environment(formula))
    name %in% names(coded) || !is.null(value) && !is.function(value)
  }
  unknown <- Filter(Negate(is_known), setdiff(all.vars(formula), "."))
  if (length(unknown) > 0) {
    abort(
      c(
        "{.arg formula} has {.code {unknown[[1]]}}, which is no column \
        (there are {listed_columns(coded)}).",
        i = nearest_hint(unknown[[1]], coded)
      ),
      argument = "formula"
    )
  }
}

# Replaces each has_label(label, ...) in an expression by 0.
without_has_label <- function(expr, label) {
  if (!is.call(expr)) {
    return(expr)
  }
  if (identical(expr[[1]], quote(has_label)) && identical(expr[[2]], as.name(label))) {
    return(0)
  }
  as.call(lapply(as.list(expr), without_has_label, label))
}

# Terms of other packages' formulas, which a regression on texts cannot have. lm() knows offset(),
# but stats::model.matrix() leaves it out without a word.
foreign_terms <- strsplit("offset weights Error strata cluster frailty s te ti t2", " ")[[
  1
]]

# Refuses terms that would be left out, or would mean something else than in the model they are
# from.
check_terms <- function(formula, data) {
  env <- environment(formula)
  term <- foreign_term(formula[[2]], data, env, FALSE) %||%
    foreign_term(formula[[3]], data, env, TRUE)
  if (!is.null(term)) {
    must <- sprintf(
      "one without the term `%s`, which estimate() cannot use",
      shorten(term, 40L)
    )
    hint <- if (identical(term, ".")) {
      "Name the columns: label == \"x\" ~ age + party."
    } else if (startsWith(term, "offset")) {
      "A term with a known coefficient can be subtracted from an outcome of numbers."
    } else {
      "Groups are terms, as in label == \"x\" ~ age + year; clusters are the argument `cluster`."
    }
    abort_argument("formula", must, formula, hint = hint)
  }
}

# Returns the first such term of an expression; NULL if there is none. `is_model` is TRUE where `|`
# and `.` are operators of formulas.
foreign_term <- function(expr, data, env, is_model) {
  if (identical(expr, quote(.)) && is_model && !"." %in% names(data)) {
    return(".")
  }
  if (!is.call(expr)) {
    return(NULL)
  }
  is_foreign <- rlang::is_call(
    expr,
    foreign_terms,
    ns = c("", "stats", "mgcv", "survival")
  ) &&
    !is_users_function(expr[[1]], env)
  if (is_foreign || rlang::is_call(expr, "~") || is_bar(expr, data, env, is_model)) {
    return(deparse1(expr))
  }
  for (part in as.list(expr)[-1]) {
    term <- if (!rlang::is_missing(part)) foreign_term(part, data, env, is_model)
    if (!is.null(term)) {
      return(term)
    }
  }
  NULL
}

# TRUE for a function that the user wrote, such as `s <- function(x) x / sd(x)`.
is_users_function <- function(name, env) {
  if (!is.symbol(name)) {
    return(FALSE)
  }
  value <- get0(as.character(name), env, mode = "function")
  is.function(value) && !is.primitive(value) && !isNamespace(topenv(environment(value)))
}

# TRUE for `|` between terms, as in y ~ x | group, but not between conditions.
is_bar <- function(expr, data, env, is_model) {
  is_condition <- function(side) {
    isTRUE(rlang::try_fetch(is.logical(eval(side, data, env)), error = \(cnd) FALSE))
  }
  is_model &&
    rlang::is_call(expr, c("|", "||"), n = 2) &&
    !all(vapply(as.list(expr)[-1], is_condition, NA))
}

# Returns the formula's matrices with the labels of all rows, and with the codes of coded rows. The
# formula is evaluated on all rows; then rows with missing values are left out.
# If `names` are labels, the formula is also evaluated once per label, as if all rows had this
# label.
formula_matrices <- function(
  coded,
  formula,
  label,
  codes,
  cluster,
  names = NULL,
  weights = NULL
) {
  environment(formula) <- rlang::env(environment(formula), has_label = has_label)
  frames <- frames_of(coded, label, codes)
  is_odd <- is.na(frames$codes[[label]][codes$rows])
  if (any(is_odd)) {
    must <- "numbers or truth values, as the labels are"
    abort_argument("gold", must, codes$codes[is_odd])
  }
  fit <- rlang::try_fetch(
    {
      frame <- stats::model.frame(formula, frames$labels, na.action = stats::na.pass)
      used <- c(frame, if (!is.null(cluster)) coded[cluster])
      # complete.cases() would count a value that SPSS declares to be missing.
      is_missing <- lapply(used, \(x) rowSums(cbind(is.na(x))) > 0)
      keep <- !Reduce(`|`, is_missing, is.na(codes$labels))
      if (!is.null(weights)) {
        row_weights <- unlist(weights_given(weights, coded))
        keep <- keep & !is.na(row_weights) & row_weights > 0
      }
      list(frame = frame, keep = keep)
    },
    error = \(cnd) {
      message <- "{.arg formula} cannot be evaluated."
      abort(message, parent = cnd)
    }
  )
  terms <- stats::terms(fit$frame)
  labels <- fit$frame[fit$keep, , drop = FALSE]
  gold <- stats::model.frame(terms, frames$codes, na.action = stats::na.pass)
  check_by_row(fit$frame, gold, codes$rows)
  gold <- gold[codes$rows[fit$keep[codes$rows]], , drop = FALSE]
  levels <- used_levels(terms, labels, gold)
  labels <- with_levels(labels, levels, label)
  gold <- with_levels(gold, levels, label)
  x_hat <- stats::model.matrix(terms, labels)
  has_label_right <- label %in% all.vars(formula[[3]])
  names <- intersect(value_text(names), c(codes$labels[fit$keep], codes$codes))
  matrices <- lapply(rlang::set_names(names), \(name) {
    all <- frames$labels
    all[[label]] <- frames$constant(name)
    all <- stats::model.frame(terms, all, na.action = stats::na.pass)
    all <- with_levels(all[fit$keep, , drop = FALSE], levels, label)
    list(
      x_hat = if (has_label_right) columns_of(stats::model.matrix(terms, all)),
      y_hat = response_of(all)
    )
  })
  list(
    kept = as.list(which(fit$keep) - 1),
    x_hat = columns_of(x_hat),
    y_hat = response_of(labels),
    x = columns_of(stats::model.matrix(terms, gold)),
    y = response_of(gold),
    clusters = if (!is.null(cluster)) {
      as.list(as.integer(factor(coded[[cluster]][fit$keep])) - 1)
    },
    terms = as_py_list(colnames(x_hat)),
    outcome = deparse1(formula[[2]]),
    has_label_right = has_label_right,
    each = matrices,
    formula = deparse1(formula)
  )
}

# Returns the data with the labels, and a copy in which codes replace the labels of coded rows.
# Labels and codes have the same levels. Logical values and numbers keep their type.
frames_of <- function(coded, label, codes) {
  frame <- as.data.frame(coded)
  values <- frame[[label]]
  as_was <- if (is.logical(values)) {
    as.logical
  } else if (is.numeric(values)) {
    \(x) suppressWarnings(as.double(x))
  } else {
    there <- c(sort(unique(codes$labels)), codes$codes)
    known <- intersect(unique(c(levels(values), there)), there)
    # The factor is ordered, so that formulas may contain label >= "neutral".
    \(x) factor(x, known, ordered = is.ordered(values))
  }
  mixed <- codes$labels
  mixed[codes$rows] <- codes$codes
  gold <- frame
  frame[[label]] <- as_was(codes$labels)
  gold[[label]] <- as_was(mixed)
  n <- nrow(frame)
  list(labels = frame, codes = gold, constant = \(name) as_was(rep(name, n)))
}

# Rows without a code have equal values in both frames, unless a term uses labels of other rows.
check_by_row <- function(labels, codes, rows) {
  same <- function(name) {
    rest <- function(x) {
      x <- as.matrix(if (is.factor(x)) as.character(x) else x)
      x[-rows, , drop = FALSE]
    }
    isTRUE(all.equal(rest(labels[[name]]), rest(codes[[name]]), check.attributes = FALSE))
  }
  for (name in names(labels)) {
    if (length(rows) > 0 && !same(name)) {
      must <- sprintf(
        "one whose terms use only each row's own label: `%s` uses the labels of other rows",
        name
      )
      abort_argument("formula", must, stats::formula(stats::terms(labels)))
    }
  }
}

# Keeps the levels that occur in each factor. A level without a row would be a column of zeros.
used_levels <- function(terms, labels, gold) {
  levels <- stats::.getXlevels(terms, labels)
  for (name in names(levels)) {
    there <- unique(c(value_text(labels[[name]]), value_text(gold[[name]])))
    levels[[name]] <- c(
      intersect(levels[[name]], there),
      sort(setdiff(there, levels[[name]]))
    )
  }
  levels
}

# Gives an ordinal label a coefficient for each level, as for other factors; the order of its levels
# affects only comparisons.
with_levels <- function(frame, levels, label) {
  for (name in names(levels)) {
    values <- frame[[name]]
    frame[[name]] <- factor(
      value_text(values),
      levels = levels[[name]],
      ordered = is.ordered(values) && name != label
    )
    contrasts <- attr(values, "contrasts")
    if (!is.null(contrasts)) stats::contrasts(frame[[name]]) <- contrasts
  }
  frame
}

response_of <- function(frame) {
  y <- stats::model.response(frame)
  if (is.logical(y) || (is.numeric(y) && is.null(dim(y)))) {
    return(as_py_numbers(y))
  }
  must <- "a formula whose left side is a number or a condition, such as label == \"x\""
  abort_argument("formula", must, y)
}

columns_of <- function(matrix) {
  lapply(seq_len(ncol(matrix)), \(j) as_py_numbers(matrix[, j]))
}
