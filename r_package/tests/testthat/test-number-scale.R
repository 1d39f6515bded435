test_that("scales are checked by Python, and shown", {
  local_real()
  scale <- number_scale(-1, 1, 0.5, names = c("-1" = "disagrees", "1" = "agrees"))
  expect_identical(scale$values, c(-1, -0.5, 0, 0.5, 1))
  expect_identical(scale$names, c("-1" = "disagrees", "1" = "agrees"))
  expect_page(scale)
  expect_page(codebook("Does the author agree?", scale))
  expect_identical(
    number_scale(0, 2, names = c("no", "yes"))$names,
    c("0" = "no", "2" = "yes")
  )
  book <- codebook("Q?", number_scale(0, 3))
  expect_identical(book$type, "scale")
  expect_identical(book$measured, "interval")
  expect_named(book$labels, as.character(0:3))
  path <- withr::local_tempfile(fileext = ".yaml")
  write_codebook(book, path)
  expect_identical(read_codebook(path), book)
})

test_that("a wrong scale names its argument", {
  local_real()
  expect_refused({
    number_scale()
    number_scale(0, "ten")
    number_scale(c(0, 1), 3)
    number_scale(NA_real_, 3)
    number_scale(0, Inf)
    number_scale(3, 0)
    number_scale(0, 10, 3)
    number_scale(0, 2, names = "low")
    number_scale(0, 2, names = c("3" = "high"))
    number_scale(0, 2, names = c(NA, "high"))
    codebook("Q?", 0:3, type = "scale")
    codebook("Q?", number_scale(0, 3), type = "ordinal")
    codebook(
      "Q?",
      number_scale(0, 3),
      examples = data.frame(text = "a", label = 4)
    )
  })
})
