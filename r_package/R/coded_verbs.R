# Methods of coded texts (coded.R) for `[`, `$<-`, binding and joining, and for the verbs of dplyr,
# tidyr, tibble, vctrs and data.table: each keeps the record as long as it describes the data.

#' @export
`[.llamaherd_coded` <- function(x, ...) {
  if (inherits(x, "data.table")) {
    before <- lapply(attr(x, "llamaherd")$needs, \(name) rlang::duplicate(x[[name]]))
    # NextMethod() evaluates the arguments in the frame of the caller, like methods of data.table.
    part <- NextMethod()
    data_table_part(part, x, before)
  } else {
    part <- without_coding(x)[...]
    if (is.data.frame(part)) part_of_coded(part, x) else part
  }
}

# Returns a part of coded texts. An index that does not exist gives a row of NA, which was not
# coded.
part_of_coded <- function(part, coded) {
  coding <- attr(coded, "llamaherd")
  needs <- intersect(coding$needs, names(part))
  is_part <- nrow(part) <= nrow(coded) && !anyNA(unclass(part)[needs], recursive = TRUE)
  if (is_part) as_coded(part, coding) else kept_coding(part, coded)
}

# Handles the result of data.table's `[`. The result is a part of the coded texts; if the call
# contains `:=`, it is `x` itself. Because `:=` changes `x` in place, changed labels are visible
# only by comparison with a copy made before.
data_table_part <- function(part, x, before) {
  coding <- attr(x, "llamaherd")
  changed <- !identical(before, lapply(coding$needs, \(name) x[[name]]))
  for (frame in list(if (changed) x, part)) {
    if (data.table::is.data.table(frame)) {
      is_it <- !changed && all(coding$needs %in% names(frame))
      is_it <- is_it && length(uncoded_rows(frame, coding, before)) == 0
      set_coding(frame, if (is_it) coding)
    }
  }
  # A value of `[` is always visible; as for a data.table, the value of `:=` should not be printed.
  the$not_printed <- if (rlang::is_reference(part, x)) {
    rlang::new_weakref(attr(part, ".internal.selfref"))
  }
  part
}

# Returns TRUE if a weak reference is to the pointer that each data.table has of its own. A new
# table may have the address of a table that is gone.
is_table_of <- function(x, ref) {
  reference <- attr(x, ".internal.selfref")
  !is.null(ref) &&
    !is.null(reference) &&
    rlang::is_reference(rlang::wref_key(ref), reference)
}

# Sets the record of a data.table in place: R's replacement functions would create a copy of the
# table, and data.table could not change the copy by reference.
set_coding <- function(data, coding) {
  plain <- setdiff(class(data), "llamaherd_coded")
  data.table::setattr(data, "llamaherd", coding)
  data.table::setattr(data, "class", c(if (!is.null(coding)) "llamaherd_coded", plain))
}

#' @export
`[<-.llamaherd_coded` <- function(x, ..., value) {
  data <- without_coding(x)
  data[...] <- value
  kept_coding(data, x, is_users_code(parent.frame()))
}

#' @export
`[[<-.llamaherd_coded` <- function(x, ..., value) {
  data <- without_coding(x)
  data[[...]] <- value
  kept_coding(data, x, is_users_code(parent.frame()))
}

#' @export
`$<-.llamaherd_coded` <- function(x, name, value) {
  data <- without_coding(x)
  data[[name]] <- value
  kept_coding(data, x, is_users_code(parent.frame()))
}

# FALSE for functions of R itself, such as data.matrix(), which change columns of a copy.
is_users_code <- function(env) {
  !environmentName(topenv(env)) %in% c("base", "stats", "utils")
}

# Also called by dplyr::rename().
#' @export
`names<-.llamaherd_coded` <- function(x, value) {
  coding <- attr(x, "llamaherd")
  at <- lapply(coding[named_columns], match, names(x))
  for (part in names(at)) {
    there <- !is.na(at[[part]])
    coding[[part]][there] <- as.character(value)[at[[part]][there]]
  }
  data <- without_coding(x)
  names(data) <- value
  as_coded(data, coding)
}

# Elements of the record that contain names of columns.
named_columns <- c("text", "label", "probs", "columns", "needs")

# Binds coded texts. Rows of several runs have no common record.
#' @export
rbind.llamaherd_coded <- function(...) bind_coded(rbind, list(...))

#' @export
cbind.llamaherd_coded <- function(...) bind_coded(cbind, list(...))

bind_coded <- function(bind, frames) {
  is_coded <- vapply(frames, inherits, NA, "llamaherd_coded")
  plain <- frames
  plain[is_coded] <- lapply(frames[is_coded], without_coding)
  kept_coding(do.call(bind, plain), frames[[which(is_coded)[[1]]]])
}

#' @export
transform.llamaherd_coded <- function(`_data`, ...) {
  # The arguments are evaluated where the caller wrote them.
  columns <- as.list(substitute(list(...)))[-1]
  plain <- rlang::call2(transform, without_coding(`_data`), !!!columns)
  kept_coding(eval(plain, parent.frame()), `_data`)
}

# Joins coded texts as the left table. If the join renames columns of the coded texts, the result is
# a plain data frame.
#' @export
merge.llamaherd_coded <- function(x, y, ...) {
  if (inherits(y, "llamaherd_coded")) {
    y <- without_coding(y)
  }
  kept_coding(merge(without_coding(x), y, ...), x)
}

#' @exportS3Method dplyr::dplyr_reconstruct
dplyr_reconstruct.llamaherd_coded <- function(data, template) {
  plain <- if (inherits(data, "llamaherd_coded")) without_coding(data) else data
  rebuilt <- dplyr::dplyr_reconstruct(plain, without_coding(template))
  kept_coding(rebuilt, template)
}

# Also called by functions of tibble and tidyr that add rows.
#' @exportS3Method vctrs::vec_restore
vec_restore.llamaherd_coded <- function(x, to, ...) {
  plain <- without_coding(to)
  restored <- vctrs::vec_restore(x, plain)
  kept_coding(restored, to, warns = nrow(to) > 0) # `to` has no rows while rows are bound
}

# Verbs that keep rows but would lose the class, by package. They operate on the plain data frame.
row_verbs <- strsplit(
  c(
    dplyr = "do dplyr_col_modify dplyr_row_slice group_by group_modify intersect rowwise
      setdiff ungroup union union_all",
    tidyr = "complete drop_na extract fill pivot_longer pivot_wider replace_na separate
      separate_longer_delim separate_longer_position separate_rows
      separate_wider_delim separate_wider_position separate_wider_regex uncount
      unite unnest unnest_longer unnest_wider"
  ),
  "\\s+"
)

# Registers a method for each verb when its package is loaded; versions of a package differ in their
# verbs.
register_row_verbs <- function() {
  for (package in names(row_verbs)) {
    local({
      package <- package
      register <- function(...) {
        env <- asNamespace(package)
        for (verb in intersect(row_verbs[[package]], getNamespaceExports(package))) {
          registerS3method(
            verb,
            "llamaherd_coded",
            coded_verb(package, verb),
            envir = env
          )
        }
      }
      if (isNamespaceLoaded(package)) {
        register()
      }
      setHook(packageEvent(package, "onLoad"), register)
    })
  }
}

# Returns a method whose first argument has the name that the generic function gives it.
coded_verb <- function(package, verb) {
  first <- names(formals(get(verb, asNamespace(package))))[[1]]
  data <- as.name(first)
  plain <- rlang::call2(
    verb,
    rlang::expr(without_coding(!!data)),
    quote(...),
    .ns = package
  )
  rlang::new_function(
    as.pairlist(formals(\(x, ...) NULL) |> stats::setNames(c(first, "..."))),
    rlang::expr(kept_coding(!!plain, !!data)),
    topenv()
  )
}

#' @exportS3Method dplyr::summarise
summarise.llamaherd_coded <- function(.data, ...) {
  dplyr::summarise(without_coding(.data), ...)
}

#' @exportS3Method tibble::as_tibble
as_tibble.llamaherd_coded <- function(x, ...) {
  tibble::as_tibble(without_coding(x), ...)
}

#' @export
as.data.frame.llamaherd_coded <- function(x, ...) {
  as.data.frame(without_coding(x), ...)
}
