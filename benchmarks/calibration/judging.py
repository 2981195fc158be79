def judge_pool(pool, kinds):
    raise NotImplementedError
