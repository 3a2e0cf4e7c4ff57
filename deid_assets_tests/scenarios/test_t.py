import time
def test_x(published, pipeline):
    print(published.releases)
    t=time.time()
    s = pipeline.run("second", ["release"])
    print(time.time()-t, s, pipeline.releases)
    print(pipeline.table("second","suppressed_members").count())
    print(pipeline.every_asset)
